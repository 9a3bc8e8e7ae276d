// What the pages do in the browser: couple the ε slider to its field, put names of columns into fields, mark
// the field at fault, copy text, send forms once.
"use strict";

(() => {
  const root = document.documentElement;
  root.classList.add("scripted");

  // ---- the slider: log10 ε, rounded to two digits -------------------------------------------------------

  const number = (text) => {
    const parts = text.split("/").map(Number);
    return parts.length === 2 ? parts[0] / parts[1] : parts[0];
  };

  const couple = (slider) => {
    const field = document.getElementById(slider.dataset.logSlider);
    const show = () => {
      slider.setAttribute("aria-valuetext", "ε = " + field.value);
    };
    const follow = () => {
      const value = number(field.value);
      if (value > 0) slider.value = String(Math.log10(value));
      show();
    };
    slider.addEventListener("input", () => {
      field.value = String(Number((10 ** Number(slider.value)).toPrecision(2)));
      show();
    });
    field.addEventListener("change", follow);
    window.addEventListener("pageshow", follow); // a browser may fill in what a form held when it was left
    follow();
  };

  // ---- small helpers of forms -----------------------------------------------------------------------------

  document.addEventListener("click", (event) => {
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      const text = copy.closest(".copy").querySelector("code").textContent;
      const label = copy.textContent;
      navigator.clipboard.writeText(text).then(
        () => { copy.textContent = "Copied"; },
        () => { copy.textContent = "Select and copy the text below"; },
      ).then(() => setTimeout(() => { copy.textContent = label; }, 1600));
    }
    const fill = event.target.closest("[data-fill]");
    const field = chosen || document.querySelector("[data-columns]");
    if (!fill || !field) return;
    const before = field.value.trim(), name = fill.dataset.fill;
    const joined = {
      name: () => name,
      names: () => (before ? before + "," : "") + name,
      lines: () => (before ? before + "\n" : "") + name + "=",
      formula: () => before ? before + (before.includes("~") ? (before.endsWith("~") ? " " : " + ") : " ~ ") + name : name,
    };
    field.value = joined[field.dataset.columns]();
    field.focus();
    field.dispatchEvent(new Event("change", { bubbles: true }));
  });

  // The name of a column goes to the field that was used last, of those that take one.
  let chosen = null;
  document.addEventListener("focusin", (event) => {
    if (event.target.matches("[data-columns]")) chosen = event.target;
  });

  document.addEventListener("change", (event) => {
    const limit = Number(event.target.dataset.limit);
    if (!limit) return;
    const file = event.target.files[0];
    const large = file && file.size > limit;
    const text = large ? "This file has " + (file.size / 1e6).toFixed(1) + " MB, more than may be uploaded." : "";
    event.target.setCustomValidity(text);
    document.getElementById("file-problem").textContent = text;
  });

  // The server answers a second submission with the first one's result; this only spares it the question.
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-once]")) return;
    if (event.target.dataset.sent) {
      event.preventDefault();
      return;
    }
    event.target.dataset.sent = "yes";
    event.target.querySelectorAll("button[type=submit]").forEach((button) => button.setAttribute("aria-disabled", "true"));
  });
  window.addEventListener("pageshow", () => {
    document.querySelectorAll("[data-once]").forEach((form) => {
      delete form.dataset.sent;
      form.querySelectorAll("button").forEach((button) => button.removeAttribute("aria-disabled"));
    });
  });

  // The field that a problem is about; without scripts the page marks it itself.
  const mark = (part) => {
    document.querySelectorAll("form[hx-get] [aria-invalid]").forEach((field) => field.removeAttribute("aria-invalid"));
    document.querySelectorAll("form[hx-get] .field-problem").forEach((text) => text.remove());
    const problem = part.querySelector("[data-field]");
    const field = problem && document.getElementById(problem.dataset.field);
    if (!field) return;
    const text = document.createElement("p");
    text.className = "field-problem";
    text.id = field.id + "-problem";
    text.textContent = problem.querySelector("p").textContent;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", field.id + "-help " + text.id);
    document.getElementById(field.id + "-help").before(text);
  };

  // ---- htmx -----------------------------------------------------------------------------------------------

  document.addEventListener("htmx:afterSwap", (event) => {
    const summary = event.detail.target.querySelector("[data-summary]");
    const status = document.querySelector("[data-status]");
    if (summary && status) status.textContent = summary.textContent;
    mark(event.detail.target);
  });
  document.addEventListener("htmx:beforeHistoryUpdate", (event) => {
    const update = event.detail.history;
    const here = location.pathname + location.search;
    if (update && update.type === "push" && update.path === here) update.type = "replace";
  });

  document.querySelectorAll("[data-log-slider]").forEach(couple);

  // What somebody changed while the scripts were loading is asked for once they are there.
  const loaded = performance.getEntriesByType("navigation")[0];
  const changed = (field) => field.matches("select")
    ? field.selectedIndex !== Math.max(0, [...field.options].findIndex((option) => option.defaultSelected))
    : field.matches("input[type=text]") && field.value !== field.defaultValue;
  document.addEventListener("DOMContentLoaded", () => {
    if (!loaded || loaded.type !== "navigate") return;
    document.querySelectorAll("form[hx-get]").forEach((form) => {
      if ([...form.elements].some(changed)) form.dispatchEvent(new Event("change"));
    });
  });

  // A second step back while the scripts were loading moves the address and leaves the page behind.
  if (loaded && history.state && history.state.htmx && loaded.name.split("#")[0] !== location.href.split("#")[0]) location.reload();
})();
