#!/usr/bin/env bash
# The runs behind results/: a few seeds of everything first, then the rest. Resumable: finished runs are not repeated,
# and a run of NPT-AD that was stopped goes on where it was (results/runs/unfinished/, which is not committed).
#
#   benchmarks/plan.sh                       # a day on two cores
#   benchmarks/plan.sh first first_npt       # some stages of it; stages can also run side by side
#   BENCH="nptad bench run --shard 1/4" benchmarks/plan.sh
#
# Where the paper's settings are too much for two cores, --set says what is different, and so does results/README.md:
# attention dropout off (no measurable difference, faster), mini-batches, fewer steps, fewer masks, a
# smaller context, the low-rank row attention.
set -u
cd "$(dirname "$0")/.."
BENCH=${BENCH:-".venv/bin/nptad bench run --jobs 2 --results results"}
NPT=npt-ad,transformer
CLASSICAL=iforest,knn,copod,rrcf,pidforest,1nn,lof,ocsvm,gmm
DEEP=goad,neutral-ad,icl,drocc,mcm,drl
VARIANTS=drocc-thyroid,drocc-arrhythmia,goad-kdd,neutral-ad-thyroid,neutral-ad-kdd
TINY=wine,lympho,glass,vertebral,ecoli,ionosphere,breastw,pima
SMALL=$TINY,wbc,cardio,arrhythmia,vowels,letter,abalone  # fewer than 2000 rows
MIDDLE=seismic,musk,thyroid,optdigits,satimage2,satellite,pendigits,annthyroid,mnist,mammography
LARGE=shuttle,mulcross,campaign,forestcover,fraud,backdoor

run() { $BENCH "$@" || echo "failed: $*" >&2; }
npt() { run --methods "$1" --datasets "$2" --seeds "$3" --set attention_dropout=0 "${@:4}"; }
asis() { run --methods $NPT --datasets "$2" --seeds "$1"; }
wbc() { run --methods $NPT --datasets wbc --seeds "$1" --set max_masks=1000; }
middle() { npt $NPT "$2" "$1"; }
letter() { npt $NPT letter "$1" --set n_steps=500; }
landsat() { npt $NPT satimage2,satellite "$1" --set batch_size=1024; }
mammography() { npt $NPT mammography "$1" --set batch_size=2048; }
thyroid() { npt $NPT thyroid "$1" --set n_steps=1000; }
pendigits() { npt $NPT pendigits "$1" --set n_steps=500 --set batch_size=1024; }
# The Transformer has no row attention to make low-rank.
wide() { npt npt-ad "$2" "$1" --set row_attention=low_rank "${@:3}"; npt transformer "$2" "$1" "${@:3}"; }
musk() { wide "$1" musk --set batch_size=256; }
large() { npt $NPT "$2" "$1" --set context_size=2048 --set n_steps=300 --set batch_size=1024 "${@:3}"; }
wide_large() { wide "$1" "$2" --set context_size=2048 --set n_steps=300 --set batch_size=1024 "${@:3}"; }
default() { run --methods npt-ad --preset default --datasets "$2" --seeds "$1"; }

# Everything once, as far as possible.
first() {
  run --methods mask-knn --datasets $SMALL,$MIDDLE --seeds 0-4
  run --methods $CLASSICAL --datasets $SMALL,$MIDDLE --seeds 0-2
  run --methods $CLASSICAL,mask-knn --datasets $LARGE --seeds 0 --time-limit 900
  run --methods $DEEP --datasets $SMALL,$MIDDLE,$LARGE --seeds 0 --time-limit 900
}
first_npt() {
  asis 0-4 $TINY
  middle 0 vowels,abalone,cardio,seismic,annthyroid
  mammography 0; landsat 0; thyroid 0; wbc 0; pendigits 0; letter 0
  wide 0 arrhythmia; musk 0; wide 0 optdigits --set batch_size=512 --set n_steps=300
  large 0 mulcross; large 0 forestcover --set 'mask_sizes=[1]'
  large 0 shuttle --set 'mask_sizes=[1]' --set embedding_dim=16
  wide_large 0 campaign; wide_large 0 fraud --set embedding_dim=16
  wide 0 mnist --set embedding_dim=16 --set batch_size=256 --set n_steps=500
  # 20 masks of a fifth of the cells, as training hides them: as many of one cell would leave most columns unscored.
  # 2,000 steps of 64 rows where the paper has 182,000 of 256: ten times its learning rate, or nothing is learnt.
  wide 0 backdoor --set embedding_dim=16 --set n_steps=2000 --set batch_size=64 --set learning_rate=0.01 \
    --set 'mask_sizes=[39]' --set max_masks=20 --set context_size=512
  default 0-2 $TINY
  default 0 wbc,vowels,cardio,thyroid,seismic,abalone,satimage2,satellite,annthyroid,mammography,pendigits,letter
  default 0 arrhythmia,optdigits,musk,mnist,$LARGE
}
# As many seeds as the two cores have time for.
second() {
  run --methods mask-knn --datasets $TINY,wbc,cardio,seismic --seeds 0-19
  run --methods mask-knn --datasets $SMALL --seeds 0-9
  run --methods $CLASSICAL --datasets $SMALL,seismic --seeds 0-9
  run --methods $DEEP --datasets $SMALL --seeds 0-9 --time-limit 900
  for share in 0 0.01 0.02 0.03 0.04 0.05 0.06 0.07 0.08 0.09 0.1; do
    run --methods goad,neutral-ad,icl --datasets "separable@$share" --seeds 0-4
  done
  run --methods $DEEP --datasets $MIDDLE --seeds 0-2 --time-limit 900
}
second_npt() {
  for share in 0 0.01 0.02 0.03 0.04 0.05 0.06 0.07 0.08 0.09 0.1; do middle 0-4 "separable@$share"; done
  middle 0-4 vowels,abalone,cardio,seismic,annthyroid
  npt npt-ad satimage2 0  # are the mini-batches to blame? no
  npt npt-ad satimage2 0 --set batch_size=1024 --set n_steps=400  # or too few steps? no
  wbc 0-4; mammography 0-4; landsat 0-4; thyroid 0-1; pendigits 0-1; letter 0-4
  wide 0-1 arrhythmia; musk 0-1; wide 0-1 optdigits --set batch_size=512 --set n_steps=300
  npt npt-ad musk 0 --set row_attention=low_rank  # the full batch: half an hour, and no more to find
  default 0-4 $TINY,wbc,thyroid,annthyroid,mammography  # a seed takes under two minutes on one core
  default 0-4 abalone,seismic,shuttle,mulcross,pendigits  # and on two
  asis 0-19 $TINY; middle 0-19 cardio,seismic; wbc 0-19
}
# The library's default score: minutes. The simple methods on the same splits.
library() {
  run --methods nptad,1nn,knn,lof,gmm --datasets $SMALL,$MIDDLE --seeds 0-4
  run --methods nptad,1nn,knn,lof,gmm --datasets $LARGE --seeds 0-2 --time-limit 1500
}
# Other published settings of the deep methods, and the ones of the paper's contamination study.
variants() {
  for share in 0 0.01 0.02 0.03 0.04 0.05 0.06 0.07 0.08 0.09 0.1; do
    run --methods neutral-ad-thyroid --datasets "separable@$share" --seeds 0-4
  done
  run --methods $VARIANTS --datasets $SMALL,$MIDDLE,$LARGE --seeds 0 --time-limit 900
  run --methods $VARIANTS --datasets $SMALL --seeds 0-4 --time-limit 900
}
# The paper's settings without any cut, the cheapest sets first: a day on two cores. And breastw with the steps of the
# authors' scripts.
uncut() {
  run --methods npt-ad --preset scripts --datasets breastw --seeds 0-19
  run --methods npt-ad --seeds 0-1 --datasets \
    wbc,vowels,cardio,seismic,annthyroid,abalone,mammography,satimage2,thyroid,letter,pendigits,satellite,optdigits
  run --methods npt-ad --seeds 0-1 --datasets arrhythmia,mulcross,musk,forestcover,campaign,shuttle
  run --methods npt-ad --seeds 0 --datasets fraud
}

[ $# -gt 0 ] || set -- first first_npt second second_npt library variants uncut
for stage; do "$stage"; done
