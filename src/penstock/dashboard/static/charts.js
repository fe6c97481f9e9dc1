// Draws figures over time with uPlot, in the colours of the page.

import { clock, NONE } from "./text.js";

const HEIGHT = 180;
const short = (moments) => moments.length > 1 && moments[1] - moments[0] < 60;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Is a chart of lines over time; it takes the width of its place. */
export class TimeChart {
  /** `series` has for each line its label, the name of its colour, and how its values are written. */
  constructor(place, { label, unit, series, range, height = HEIGHT }) {
    Object.assign(this, { place, label, unit, series, range, height });
    this.data = [[], ...series.map(() => [])];
    this.canvas = document.createElement("div");
    this.canvas.setAttribute("role", "img");
    this.values = series.map(() => document.createElement("b"));
    this.when = document.createElement("span");
    const names = series.map((one, n) => {
      const name = document.createElement("span");
      name.style.setProperty("--mark", `var(${one.colour})`);
      name.className = one.dash ? "mark-line dashed" : "mark-line";
      name.append(one.label, " ", this.values[n]);
      return name;
    });
    const legend = document.createElement("p");
    legend.className = "legend";
    legend.setAttribute("aria-hidden", "true");
    legend.append(...names, this.when);
    place.replaceChildren(legend, this.canvas);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(place);
  }

  show(data) {
    this.data = data;
    this.canvas.setAttribute("aria-label", this.words());
    this.legend(this.plot?.cursor.idx);
    if (this.plot === undefined) this.draw();
    else this.plot.setData(data);
  }

  /** Writes the figures under the pointer, or else the last. */
  legend(pointed) {
    const moment = pointed ?? this.data[0].length - 1;
    this.series.forEach((one, n) => {
      const value = this.data[n + 1][moment];
      this.values[n].textContent = value === null || value === undefined ? NONE : one.write(value);
    });
    this.when.textContent = pointed === null || pointed === undefined ? "" : `at ${clock(this.data[0][moment])}`;
  }

  /** Draws it again, in other colours. */
  draw() {
    this.plot?.destroy();
    this.plot = undefined;
    if (window.uPlot === undefined) {
      this.place.textContent = "This build of Penstock has no charts.";
      return;
    }
    const width = this.place.clientWidth;
    if (width === 0) return;
    const line = colour("--line");
    const ink = colour("--faint");
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 }, font: "11px system-ui, sans-serif" };
    this.plot = new uPlot({
      width,
      height: this.height,
      padding: [12, 8, 0, 0],
      cursor: { y: false, drag: { x: false, y: false } },
      legend: { show: false },
      hooks: { setCursor: [(plot) => this.legend(plot.cursor.idx)] },
      scales: { y: { range: this.range ?? ((_, low, high) => [0, Math.max(high * 1.1, 1e-9)]) } },
      axes: [
        { ...axis, space: 70, values: (_, moments) => moments.map((at) => clock(at).slice(0, short(moments) ? 8 : 5)), size: 28, gap: 4 },
        { ...axis, size: 44, gap: 4, label: this.unit, labelSize: 16, labelFont: "11px system-ui, sans-serif", values: (_, ticks) => ticks.map((tick) => this.series[0].write(tick)) },
      ],
      series: [
        {},
        ...this.series.map((one) => ({
          stroke: colour(one.colour),
          width: 2,
          dash: one.dash,
          points: { show: false },
        })),
      ],
    }, this.data, this.canvas);
  }

  resize() {
    if (this.plot === undefined) this.draw();
    else if (this.place.clientWidth > 0 && this.place.clientWidth !== this.plot.width) {
      this.plot.setSize({ width: this.place.clientWidth, height: this.height });
    }
  }

  destroy() {
    this.observer.disconnect();
    this.plot?.destroy();
  }

  words() {
    const last = this.series.map((one, n) => {
      const value = this.data[n + 1].findLast((each) => each !== null && each !== undefined);
      return `${one.label} ${value === undefined ? "not known" : one.write(value)}`;
    });
    const since = this.data[0].length > 0 ? `, since ${clock(this.data[0][0])}` : "";
    return `${this.label}: now ${last.join(", ")}${since}`;
  }
}

const WIDTH = 96;
const TALL = 22;

/** The path of a line through numbers from 0 to 1, for a picture of 96 by 22. */
export function sparkline(values) {
  if (values.length === 0) return "";
  const step = values.length > 1 ? (WIDTH - 2) / (values.length - 1) : 0;
  return values.map((value, n) => `${n ? "L" : "M"}${(1 + n * step).toFixed(1)} ${(TALL - 2 - value * (TALL - 4)).toFixed(1)}`).join("");
}
