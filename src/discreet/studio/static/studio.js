// What the pages do in the browser: couple the ε slider to its field, edit levels as chips, copy text, send forms once.
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

  // ---- levels as chips: the text area keeps the truth, one level a line, and is what is sent -------------

  const chips = (area) => {
    const list = document.createElement("ul");
    const entry = document.createElement("input");
    const label = document.querySelector(`label[for="${area.id}"]`);
    const levels = () => area.value.split("\n").map((level) => level.trim()).filter(Boolean);
    const keep = (values) => {
      area.value = values.join("\n");
      show();
      area.dispatchEvent(new Event("change", { bubbles: true }));
    };
    const show = () => {
      list.replaceChildren(...levels().map((level, index) => {
        const item = document.createElement("li");
        const remove = document.createElement("button");
        item.className = "chip";
        item.textContent = level + " ";
        remove.type = "button";
        remove.textContent = "×";
        remove.setAttribute("aria-label", "Remove " + level);
        remove.addEventListener("click", () => {
          keep(levels().filter((_, other) => other !== index));
          entry.focus();
        });
        item.append(remove);
        return item;
      }));
      entry.required = area.dataset.required === "yes" && !levels().length;
    };
    const take = () => {
      const values = entry.value.split(/[,\n]/).map((level) => level.trim()).filter(Boolean);
      entry.value = "";
      if (values.length) keep([...new Set([...levels(), ...values])]);
    };
    list.className = "chips";
    entry.type = "text";
    entry.id = area.id + "-add";
    entry.autocomplete = "off";
    entry.placeholder = "type one and press Enter";
    entry.setAttribute("aria-describedby", area.id + "-help");
    entry.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === ",") {
        if (event.key === "," || entry.value.trim()) event.preventDefault();
        take();
      } else if (event.key === "Backspace" && !entry.value && levels().length) {
        keep(levels().slice(0, -1));
      }
    });
    entry.addEventListener("change", (event) => { event.stopPropagation(); take(); });
    if (area.required) area.dataset.required = "yes";
    area.required = false;
    area.hidden = true;
    if (label) label.htmlFor = entry.id;
    area.before(list, entry);
    show();
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
    const lines = field.dataset.columns === "lines" && field.value.trim() ? field.value.trimEnd() + "\n" : "";
    field.value = lines + fill.dataset.fill + (field.dataset.columns === "lines" ? "=" : "");
    field.focus();
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

  // ---- htmx -----------------------------------------------------------------------------------------------

  document.addEventListener("htmx:afterSwap", (event) => {
    const summary = event.detail.target.querySelector("[data-summary]");
    const status = document.querySelector("[data-status]");
    if (summary && status) status.textContent = summary.textContent;
  });
  document.addEventListener("htmx:beforeHistoryUpdate", (event) => {
    const update = event.detail.history;
    const here = location.pathname + location.search;
    if (update && update.type === "push" && update.path === here) update.type = "replace";
  });

  document.querySelectorAll("[data-log-slider]").forEach(couple);
  document.querySelectorAll("[data-chips]").forEach(chips);

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
