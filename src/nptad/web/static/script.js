"use strict";
(() => {
  const seconds = (count) => new Promise((resolve) => setTimeout(resolve, 1000 * count));

  // A button that deletes asks for confirmation.
  for (const button of document.querySelectorAll("[data-confirm]")) {
    button.addEventListener("click", (event) => {
      if (!confirm(button.dataset.confirm)) event.preventDefault();
    });
  }

  // A form is sent once.
  for (const form of document.forms) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    });
  }
  addEventListener("pageshow", () => {
    for (const form of document.forms) delete form.dataset.sent;
  });

  // A dropped or chosen file is uploaded at once.
  const drop = document.getElementById("drop");
  if (drop) {
    const input = document.getElementById("file");
    const status = document.getElementById("upload-status");
    const button = document.getElementById("upload");
    button.hidden = true;
    const send = () => {
      const file = input.files[0];
      if (!file) return;
      const limit = Number(drop.dataset.bytes);
      if (file.size > limit) {
        status.textContent = `${file.name} has ${Math.ceil(file.size / 1e6)} MB; the limit of this server is ${Math.floor(limit / 1e6)} MB.`;
        input.value = "";
        return;
      }
      status.textContent = `Reading ${file.name} …`;
      drop.requestSubmit();
    };
    input.addEventListener("change", send);
    addEventListener("pageshow", () => {
      status.textContent = "";
      input.value = "";
    });
    for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
      addEventListener(name, (event) => {
        event.preventDefault();
        drop.classList.toggle("over", name === "dragenter" || name === "dragover");
      });
    }
    addEventListener("drop", (event) => {
      if (!event.dataTransfer.files.length) return;
      input.files = event.dataTransfer.files;
      send();
    });
  }

  // The label column has no other use.
  const label = document.getElementById("label");
  if (label) {
    const rows = [...document.querySelectorAll(".columns tbody tr")];
    const mark = () => {
      const chosen = label.value.split(":")[0];
      rows.forEach((row, place) => row.classList.toggle("label", chosen === String(place)));
    };
    label.addEventListener("change", mark);
    addEventListener("pageshow", mark);
  }

  async function statusOf(job) {
    const answer = await fetch(`/jobs/${job}/status`, { cache: "no-store" });
    return answer.ok ? answer.json() : { state: "gone", line: "deleted" };
  }

  // The progress of one job; when its state changes, the server has another page to show.
  const progress = document.getElementById("progress");

  function show(status) {
    const share = document.getElementById("share");
    if (!share) return;
    share.value = status.share;
    document.getElementById("percent").textContent = `${Math.round(100 * status.share)}%`;
    document.getElementById("left").textContent = status.left;
    let over = Boolean(status.phase);
    for (const item of document.querySelectorAll("#phases li")) {
      const current = item.dataset.phase === status.phase;
      if (current && !item.hasAttribute("aria-current")) {
        document.getElementById("spoken").textContent = item.textContent;
        item.setAttribute("aria-current", "step");
      }
      over = over && !current;
      if (!current) item.removeAttribute("aria-current");
      item.classList.toggle("over", over);
    }
    document.title = `${Math.round(100 * status.share)}%, ${status.left}`;
  }

  async function follow() {
    const trouble = document.getElementById("trouble");
    for (;;) {
      try {
        const status = await statusOf(progress.dataset.job);
        if (status.state !== progress.dataset.state) {
          location.reload();
          return;
        }
        show(status);
        trouble.hidden = true;
      } catch {
        trouble.hidden = false;
      }
      await seconds(1);
    }
  }
  if (progress) follow();

  // Jobs in a list.
  async function followLine(cell) {
    for (let state = ""; state === "" || state === "queued" || state === "running"; await seconds(1)) {
      try {
        const status = await statusOf(cell.dataset.job);
        state = status.state;
        cell.textContent = status.line;
      } catch {
        await seconds(4);
      }
    }
  }
  for (const cell of document.querySelectorAll("[data-job]:not(#progress)")) followLine(cell);
})();
