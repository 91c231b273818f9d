#!/usr/bin/env bash
# The runs behind results/: a few seeds of everything first, then the rest. Resumable: finished runs are not repeated.
#
#   benchmarks/plan.sh                       # hours on two cores
#   BENCH="nptad bench run --shard 1/4" benchmarks/plan.sh
#
# Where the paper's settings are too much for two cores, --set says what is different, and so does results/README.md:
# attention dropout off (no measurable difference, several times faster), mini-batches, fewer steps, fewer masks, a
# smaller context, the low-rank row attention.
set -u
cd "$(dirname "$0")/.."
BENCH=${BENCH:-".venv/bin/nptad bench run --jobs 2 --results results"}
NPT=npt-ad,transformer
CLASSICAL=iforest,knn,copod,rrcf,pidforest,1nn,lof,ocsvm,gmm
DEEP=goad,neutral-ad,icl,drocc,mcm,drl
SMALL=wine,lympho,glass,vertebral,wbc,ecoli,ionosphere,breastw,pima,cardio
MIDDLE=seismic,musk,thyroid,optdigits,satimage2,satellite,pendigits,annthyroid,mammography
LARGE=shuttle,mulcross,campaign,forestcover,fraud,backdoor

run() { $BENCH "$@" || echo "failed: $*" >&2; }
asis() { run --methods $NPT --datasets wine,lympho,glass,vertebral,ecoli,ionosphere,breastw,pima --seeds "$1"; }
wbc() { run --methods $NPT --datasets wbc --seeds "$1" --set max_masks=1000; }
middle() { run --methods $NPT --datasets "$2" --seeds "$1" --set attention_dropout=0; }
letter() { run --methods $NPT --datasets letter --seeds "$1" --set attention_dropout=0 --set n_steps=500; }
landsat() { run --methods $NPT --datasets satimage2,satellite --seeds "$1" --set attention_dropout=0 --set batch_size=1024; }
mammography() { run --methods $NPT --datasets mammography --seeds "$1" --set attention_dropout=0 --set batch_size=2048; }
thyroid() { run --methods $NPT --datasets thyroid --seeds "$1" --set attention_dropout=0 --set n_steps=1000; }
pendigits() {
  run --methods $NPT --datasets pendigits --seeds "$1" --set attention_dropout=0 --set n_steps=500 --set batch_size=1024
}
low_rank() {
  run --methods npt-ad --datasets "$2" --seeds "$1" --set attention_dropout=0 --set row_attention=low_rank "${@:3}"
}
large() {
  run --methods "$2" --datasets "$3" --seeds "$1" --set attention_dropout=0 --set context_size=2048 --set n_steps=300 \
    --set batch_size=1024 "${@:4}"
}
default() { run --methods npt-ad --preset default --datasets "$2" --seeds "$1"; }

first() {
  run --methods mask-knn --datasets $SMALL,seismic --seeds 0-19
  run --methods mask-knn --datasets $MIDDLE,vowels,letter,abalone,arrhythmia --seeds 0-4
  run --methods $CLASSICAL --datasets $SMALL,arrhythmia,vowels,letter,abalone --seeds 0-9
  run --methods $DEEP --datasets $SMALL --seeds 0
  asis 0-4
  middle 0-1 vowels,abalone,cardio,seismic,annthyroid
  mammography 0; landsat 0; thyroid 0; wbc 0-1
  default 0-1 wine,lympho,glass,vertebral,wbc,ecoli,ionosphere,breastw,pima,vowels,cardio,thyroid
  pendigits 0; letter 0
  low_rank 0 arrhythmia,musk; low_rank 0 optdigits --set batch_size=512 --set n_steps=300
  large 0 $NPT mulcross; large 0 $NPT forestcover --set 'mask_sizes=[1]'
  large 0 $NPT shuttle --set 'mask_sizes=[1]' --set embedding_dim=16
  large 0 npt-ad campaign --set row_attention=low_rank --set max_masks=20
  large 0 npt-ad fraud --set row_attention=low_rank --set embedding_dim=16 --set max_masks=8
  default 0-1 seismic,abalone,satimage2,satellite,annthyroid,mammography,pendigits
}
second() {
  run --methods $CLASSICAL --datasets $MIDDLE,mnist --seeds 0-2
  run --methods $CLASSICAL,mask-knn --datasets $LARGE --seeds 0 --time-limit 900
  run --methods $DEEP --datasets $SMALL,vowels,letter,abalone --seeds 0-9 --time-limit 900
  run --methods $DEEP --datasets $MIDDLE,arrhythmia --seeds 0-2 --time-limit 900
  middle 2-4 vowels,abalone,cardio,seismic,annthyroid
  mammography 1-4; landsat 1-4; thyroid 1; pendigits 1; wbc 2-4
  low_rank 1 arrhythmia,musk; low_rank 1 optdigits --set batch_size=512 --set n_steps=300
  for share in 0 0.01 0.02 0.03 0.04 0.05 0.06 0.07 0.08 0.09 0.1; do
    run --methods $NPT --datasets "separable@$share" --seeds 0-4 --set attention_dropout=0
    run --methods goad,neutral-ad,icl --datasets "separable@$share" --seeds 0-4
  done
  default 2-4 wine,lympho,glass,vertebral,wbc,ecoli,ionosphere,breastw,pima,vowels,cardio,thyroid
  asis 5-19; letter 1-4
  middle 5-19 cardio,seismic; wbc 5-19
  low_rank 0 mnist --set embedding_dim=16 --set batch_size=256 --set n_steps=300
  low_rank 0 backdoor --set embedding_dim=16 --set batch_size=256 --set n_steps=300 --set max_masks=30 --set context_size=1024
}

"${1:-first}" && { [ $# -gt 0 ] || second; }
