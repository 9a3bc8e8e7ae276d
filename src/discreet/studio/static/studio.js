// What the pages do in the browser: draw charts, couple the ε slider to its field, copy text, send forms once.
"use strict";

(() => {
  const root = document.documentElement;
  root.classList.add("scripted");

  // ---- charts: colours are names of the style sheet, so one specification fits light and dark -------------

  const colours = () => {
    const style = getComputedStyle(root);
    return (name) => style.getPropertyValue("--" + name).trim();
  };

  const filled = (value, colour) => {
    if (typeof value === "string") return value.startsWith("$") && colour(value.slice(1)) ? colour(value.slice(1)) : value;
    if (Array.isArray(value)) return value.map((item) => filled(item, colour));
    if (value && typeof value === "object") {
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, key === "values" || key === "domain" ? item : filled(item, colour)]),
      );
    }
    return value;
  };

  const theme = (colour) => {
    const text = { labelColor: colour("soft-ink"), titleColor: colour("soft-ink"), labelFontSize: 12, titleFontSize: 12, titleFontWeight: 400 };
    return {
      background: null,
      font: "system-ui, sans-serif",
      view: { stroke: null },
      axis: { ...text, gridColor: colour("line"), domainColor: colour("line"), tickColor: colour("line"), labelOverlap: true },
      legend: { ...text, labelColor: colour("ink"), symbolType: "stroke", symbolStrokeWidth: 3 },
      text: { fontSize: 12 },
    };
  };

  const draw = (canvas) => {
    const source = canvas.parentElement.querySelector(".spec");
    const colour = colours();
    const spec = filled(JSON.parse(source.textContent), colour);
    const options = {
      actions: false,
      renderer: "svg",
      ast: true,
      expr: window.vega.expressionInterpreter,
      defaultStyle: false,
      tooltip: false,
      config: theme(colour),
    };
    window.vegaEmbed(canvas, spec, options).then((shown) => {
      canvas.dataset.drawn = "yes";
      canvas.shown = shown;
    });
  };

  const drawAll = (within) => {
    within.querySelectorAll("[data-chart]").forEach((canvas) => {
      if (!canvas.dataset.drawn) draw(canvas);
    });
  };

  const redraw = () => {
    document.querySelectorAll("[data-chart]").forEach((canvas) => {
      if (canvas.shown) canvas.shown.finalize();
      draw(canvas);
    });
  };
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

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
    const lines = field.dataset.columns === "lines" && field.value.trim() ? field.value.trimEnd() + "\n" : "";
    field.value = lines + fill.textContent + (field.dataset.columns === "lines" ? "=" : "");
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
    drawAll(event.detail.target);
    const summary = event.detail.target.querySelector("[data-summary]");
    const status = document.querySelector("[data-status]");
    if (summary && status) status.textContent = summary.textContent;
  });
  document.addEventListener("htmx:beforeCleanupElement", (event) => {
    if (event.target.shown) event.target.shown.finalize();
  });
  document.addEventListener("htmx:beforeHistoryUpdate", (event) => {
    const update = event.detail.history;
    const here = location.pathname + location.search;
    if (update && update.type === "push" && update.path === here) update.type = "replace";
  });

  document.querySelectorAll("[data-log-slider]").forEach(couple);
  drawAll(document);

  // A second step back while the scripts were loading moves the address and leaves the page behind.
  const loaded = performance.getEntriesByType("navigation")[0];
  if (loaded && history.state && history.state.htmx && loaded.name.split("#")[0] !== location.href.split("#")[0]) location.reload();
})();
