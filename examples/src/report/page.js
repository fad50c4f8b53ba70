"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const thread of data.threads) {
    const { index, length, accesses, estimated, phase, profiled } = thread.columns;
    thread.windows = index.map((index, i) => ({ index, length: length[i], accesses: accesses[i], estimated: estimated[i], phase: phase[i], profiled: profiled[i] }));
  }
  const NS = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colour = (k) => (k < 8 ? `var(--p${k})` : "var(--rest)");
  const percent = (x) => {
    const p = 100 * x;
    return (p === 0 || p >= 10 ? p.toFixed(1) : p >= 0.1 ? p.toFixed(2) : p.toPrecision(2)) + " %";
  };
  const bytes = (b) => {
    for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024]]) {
      if (b >= size) return +(b / size).toPrecision(3) + " " + unit;
    }
    return b + " B";
  };
  const count = (n) => {
    for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
      if (n >= size) return +(n / size).toPrecision(3) + " " + unit;
    }
    return String(Math.round(n));
  };
  const node = (parent, tag, attributes = {}, text) => {
    const element = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  };
  const escape = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const sizes = data.sizes;
  const logs = sizes.map(Math.log2);
  const [low, high] = [logs[0], logs[logs.length - 1]];
  const fraction = (b) => (high > low ? (Math.log2(b) - low) / (high - low) : 0.5);
  const nearestSize = (f) => {
    const wanted = low + f * (high - low);
    let best = 0;
    logs.forEach((l, i) => { if (Math.abs(l - wanted) < Math.abs(logs[best] - wanted)) best = i; });
    return best;
  };
  const ticks = sizes.length > 1
    ? Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, i) => 2 ** (Math.ceil(low) + i)).filter((b) => Math.log2(b) % 2 === 0)
    : [sizes[0]];
  const top = Math.max(1e-9, ...data.phases.flatMap((p) => p.curve || []));
  const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  // One hue from the paper's colour to a deep blue; by the square root, so that small ratios can be told apart.
  const ramp = (ratio) => {
    const t = Math.sqrt(Math.min(1, ratio / top));
    const stops = dark()
      ? [[31, 31, 29], [25, 62, 115], [55, 125, 215], [205, 226, 252]]
      : [[250, 250, 248], [176, 208, 244], [42, 110, 200], [8, 28, 72]];
    const at = t * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(at));
    return stops[i].map((from, c) => Math.round(from + (at - i) * (stops[i + 1][c] - from)));
  };

  // ---- heat map ---------------------------------------------------------------------------------------------
  const frame = $("heat");
  const tip = $("heat-tip");
  const box = { left: 66, top: 30, height: 340, gap: 14, side: 150, right: 46, bottom: 46 };
  const progress = data.by_instructions ? "instructions" : "accesses";
  let thread = data.threads[0];

  function drawHeat() {
    frame.querySelectorAll("svg, canvas").forEach((e) => e.remove());
    const width = Math.max(560, frame.clientWidth);
    const inner = width - box.left - box.side - box.gap - box.right;
    const total = thread.windows.reduce((sum, w) => sum + w.length, 0) || 1;
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.floor(inner));
    canvas.height = sizes.length;
    Object.assign(canvas.style, { left: box.left + "px", top: box.top + "px", width: inner + "px", height: box.height + "px" });
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    // Average of the windows below each pixel column, by their length.
    const sums = new Float64Array(canvas.width * sizes.length);
    const weights = new Float64Array(canvas.width);
    let from = 0;
    for (const window of thread.windows) {
      const a = (from / total) * canvas.width, b = ((from + window.length) / total) * canvas.width;
      from += window.length;
      const curve = data.phases[window.phase].curve;
      if (!curve) continue;
      for (let x = Math.floor(a); x < Math.min(canvas.width, Math.ceil(b)); x++) {
        const weight = Math.min(b, x + 1) - Math.max(a, x);
        weights[x] += weight;
        for (let s = 0; s < sizes.length; s++) sums[s * canvas.width + x] += weight * curve[s];
      }
    }
    for (let s = 0; s < sizes.length; s++) {
      for (let x = 0; x < canvas.width; x++) {
        const at = 4 * ((sizes.length - 1 - s) * canvas.width + x);
        if (weights[x] > 0) image.data.set([...ramp(sums[s * canvas.width + x] / weights[x]), 255], at);
      }
    }
    context.putImageData(image, 0, 0);
    const height = box.top + box.height + box.bottom;
    const svg = node(frame, "svg", { width, height });
    frame.insertBefore(canvas, svg);
    const x = (instructions) => box.left + (instructions / total) * inner;
    const y = (b) => box.top + (1 - fraction(b)) * box.height;

    // Phase bar, neighbours of one phase merged.
    let at = 0, run = null;
    const segment = () => {
      if (!run) return;
      const [a, b] = [x(run.from), x(run.to)];
      node(svg, "rect", { x: a, y: 4, width: Math.max(0.4, b - a), height: 18, style: `fill:${colour(run.phase)}` });
      if (b - a > 16 && run.phase < 26) {
        node(svg, "text", { x: (a + b) / 2, y: 17, "text-anchor": "middle", style: "fill:#fff;font-weight:600" }, data.phases[run.phase].name);
      }
    };
    for (const window of thread.windows) {
      if (run && run.phase === window.phase) run.to = at + window.length;
      else { segment(); run = { phase: window.phase, from: at, to: at + window.length }; }
      if (window.profiled) node(svg, "line", { x1: x(at + window.length / 2), x2: x(at + window.length / 2), y1: box.top + box.height + 2, y2: box.top + box.height + 8, style: "stroke:var(--ink);opacity:.55" });
      at += window.length;
    }
    segment();

    for (const b of ticks) node(svg, "text", { x: box.left - 8, y: y(b) + 4, "text-anchor": "end" }, bytes(b));
    node(svg, "rect", { x: box.left, y: box.top, width: inner, height: box.height, class: "axis" });
    for (let i = 0; i <= 4; i++) {
      const at = (total * i) / 4;
      node(svg, "text", { x: x(at), y: box.top + box.height + 22, "text-anchor": i === 0 ? "start" : i === 4 ? "end" : "middle" }, count(at));
    }
    node(svg, "text", { x: box.left + inner / 2, y: height - 6, "text-anchor": "middle" }, `${progress} of thread ${thread.id}; ticks: profiled windows`);

    // Average curve beside it, on the same axis of sizes.
    const left = box.left + inner + box.gap;
    const most = Math.max(1e-9, ...data.average);
    node(svg, "rect", { x: left, y: box.top, width: box.side, height: box.height, class: "axis" });
    node(svg, "text", { x: left + box.side / 2, y: 17, "text-anchor": "middle", class: "strong" }, "average");
    node(svg, "polyline", {
      points: sizes.map((b, i) => `${left + (data.average[i] / most) * box.side},${y(b)}`).join(" "),
      style: "fill:none;stroke:var(--ink);stroke-width:2",
    });
    node(svg, "text", { x: left, y: box.top + box.height + 22 }, "0 %");
    node(svg, "text", { x: left + box.side, y: box.top + box.height + 22, "text-anchor": "end" }, percent(most));
    for (const level of data.caches.filter((c) => c.bytes >= sizes[0] && c.bytes <= sizes[sizes.length - 1])) {
      node(svg, "line", { x1: box.left, x2: left + box.side, y1: y(level.bytes), y2: y(level.bytes), class: "level" });
      node(svg, "text", { x: left + box.side + 6, y: y(level.bytes) + 4, class: "strong" }, level.name);
    }

    const vertical = node(svg, "line", { class: "cross", visibility: "hidden", y1: 4, y2: box.top + box.height });
    const horizontal = node(svg, "line", { class: "cross", visibility: "hidden", x1: box.left, x2: left + box.side });
    svg.onmousemove = (event) => {
      const r = svg.getBoundingClientRect();
      const [mx, my] = [event.clientX - r.left, event.clientY - r.top];
      const inside = mx >= box.left && mx <= left + box.side && my >= 4 && my <= box.top + box.height;
      for (const line of [vertical, horizontal]) line.setAttribute("visibility", inside ? "visible" : "hidden");
      tip.style.display = inside ? "block" : "none";
      if (!inside) return;
      const size = nearestSize(1 - (my - box.top) / box.height);
      const onHeat = mx <= box.left + inner;
      vertical.setAttribute("visibility", onHeat ? "visible" : "hidden");
      vertical.setAttribute("x1", mx); vertical.setAttribute("x2", mx);
      horizontal.setAttribute("y1", y(sizes[size])); horizontal.setAttribute("y2", y(sizes[size]));
      if (onHeat) {
        let position = ((mx - box.left) / inner) * total, i = 0;
        while (i < thread.windows.length - 1 && position >= thread.windows[i].length) position -= thread.windows[i++].length;
        const window = thread.windows[i], phase = data.phases[window.phase];
        tip.innerHTML = `<span class="swatch" style="background:${colour(window.phase)}"></span>phase <b>${phase.name}</b>, window ${window.index}${window.profiled ? ", profiled" : ""}<br>` +
          `${bytes(sizes[size])}: <b>${phase.curve ? percent(phase.curve[size]) : "unknown"}</b> of accesses miss<br>` +
          `<small>${count(window.length)} ${progress}${window.accesses === null ? "" : ", " + count(window.accesses) + " accesses" + (window.estimated ? " (estimated)" : "")}</small>`;
      } else {
        tip.innerHTML = `average<br>${bytes(sizes[size])}: <b>${percent(data.average[size])}</b> of accesses miss`;
      }
      const outer = frame.getBoundingClientRect();
      tip.style.left = Math.min(mx + 14 + r.left - outer.left, outer.width - tip.offsetWidth - 4) + "px";
      tip.style.top = my + 16 + "px";
    };
    svg.onmouseleave = () => { tip.style.display = "none"; for (const l of [vertical, horizontal]) l.setAttribute("visibility", "hidden"); };
    const steps = Array.from({ length: 9 }, (_, i) => `rgb(${ramp((top * i * i) / 64).join(",")})`);
    $("scale").style.background = `linear-gradient(to right, ${steps.join(",")})`;
    $("scale-top").textContent = percent(top);
  }

  // ---- curves of the phases ---------------------------------------------------------------------------------
  const curves = $("curves");
  const curvesTip = $("curves-tip");
  function drawCurves() {
    curves.querySelectorAll("svg").forEach((e) => e.remove());
    const width = Math.max(560, curves.clientWidth), height = 330;
    const area = { left: 66, right: width - 24, top: 14, bottom: height - 44 };
    const svg = node(curves, "svg", { width, height });
    const x = (b) => area.left + fraction(b) * (area.right - area.left);
    const y = (r) => area.bottom - (r / top) * (area.bottom - area.top);
    for (let i = 0; i <= 4; i++) {
      const r = (top * i) / 4;
      node(svg, "line", { x1: area.left, x2: area.right, y1: y(r), y2: y(r), class: i ? "grid" : "axis" });
      node(svg, "text", { x: area.left - 8, y: y(r) + 4, "text-anchor": "end" }, percent(r));
    }
    for (const b of ticks) node(svg, "text", { x: x(b), y: area.bottom + 18, "text-anchor": "middle" }, bytes(b));
    node(svg, "text", { x: (area.left + area.right) / 2, y: height - 6, "text-anchor": "middle" }, "cache size");
    for (const level of data.caches.filter((c) => c.bytes >= sizes[0] && c.bytes <= sizes[sizes.length - 1])) {
      node(svg, "line", { x1: x(level.bytes), x2: x(level.bytes), y1: area.top, y2: area.bottom, class: "level" });
      node(svg, "text", { x: x(level.bytes) + 4, y: area.top + 10, class: "strong" }, level.name);
    }
    const path = (points) => points.map((r, i) => `${x(sizes[i])},${y(r)}`).join(" ");
    const shown = data.phases.slice(0, 8).filter((p) => p.curve);
    for (const phase of shown.slice().reverse()) {
      const k = data.phases.indexOf(phase);
      const band = phase.high.map((r, i) => `${x(sizes[i])},${y(Math.min(top, r))}`).concat(phase.low.map((r, i) => `${x(sizes[i])},${y(r)}`).reverse());
      node(svg, "polygon", { points: band.join(" "), style: `fill:${colour(k)};opacity:.13` });
      node(svg, "polyline", { points: path(phase.curve), style: `fill:none;stroke:${colour(k)};stroke-width:2` });
    }
    node(svg, "polyline", { points: path(data.average), style: "fill:none;stroke:var(--ink);stroke-width:2;stroke-dasharray:6 4" });
    const cross = node(svg, "line", { class: "cross", visibility: "hidden", y1: area.top, y2: area.bottom });
    svg.onmousemove = (event) => {
      const r = svg.getBoundingClientRect();
      const mx = event.clientX - r.left;
      const inside = mx >= area.left && mx <= area.right;
      cross.setAttribute("visibility", inside ? "visible" : "hidden");
      curvesTip.style.display = inside ? "block" : "none";
      if (!inside) return;
      const size = nearestSize((mx - area.left) / (area.right - area.left));
      cross.setAttribute("x1", x(sizes[size])); cross.setAttribute("x2", x(sizes[size]));
      curvesTip.innerHTML = `${bytes(sizes[size])}<br>` + shown.map((p) => `<span class="swatch" style="background:${colour(data.phases.indexOf(p))}"></span>${p.name} <b>${percent(p.curve[size])}</b>` + (p.high[size] - p.low[size] > 5e-5 ? ` <small>${percent(p.low[size])} to ${percent(p.high[size])}</small>` : "")).join("<br>") +
        `<br><span class="swatch" style="background:var(--ink)"></span>average <b>${percent(data.average[size])}</b>`;
      curvesTip.style.left = Math.min(mx + 14, curves.clientWidth - curvesTip.offsetWidth - 4) + "px";
      curvesTip.style.top = "20px";
    };
    svg.onmouseleave = () => { curvesTip.style.display = "none"; cross.setAttribute("visibility", "hidden"); };
  }
  $("curve-legend").innerHTML = data.phases.slice(0, 8).map((p, k) => `<span><span class="swatch" style="background:${colour(k)}"></span>${p.name}</span>`).join("") +
    `<span><span class="swatch" style="background:var(--ink)"></span>average (dashed)</span>`;

  const select = $("thread");
  if (data.threads.length > 1) {
    select.innerHTML = data.threads.map((t, i) => `<option value="${i}">thread ${t.id} (${t.windows.length} windows)</option>`).join("");
    select.hidden = false;
    select.onchange = () => { thread = data.threads[+select.value]; drawHeat(); };
  }
  const draw = () => { drawHeat(); drawCurves(); };
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
