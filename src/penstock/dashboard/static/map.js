// Draws the fragments on their sites, and what flows from site to site.

import { h, svg } from "./dom.js";
import { siteStanding } from "./tables.js";
import * as text from "./text.js";

const WIDTH = 460;
const HEIGHT = 290;
const BOX = { wide: 126, tall: 46 };
const DOT = { wide: 14, tall: 14 };
const MOST_BOXES = 8; // beyond them sites are dots, with their names around
const REDRAW_MS = 10000; // how long the map of many sites stands while only its figures change

/** Sums up what flows between sites: a link for each pair, with its rows a second and its queries. */
export function linksBetween(sites) {
  const home = new Map();
  for (const site of sites) for (const fragment of site.fragments) home.set(fragment.id, site.site);
  const links = new Map();
  for (const site of sites) {
    for (const fragment of site.fragments) {
      const receivers = fragment.sends_to.map((id) => home.get(id)).filter((name) => name !== undefined);
      for (const receiver of new Set(receivers)) {
        if (receiver === site.site) continue;
        const key = `${site.site}>${receiver}`;
        const link = links.get(key) ?? { from: site.site, to: receiver, rows: 0, queries: new Set() };
        link.rows += fragment.rows_per_second / fragment.sends_to.length;
        link.queries.add(fragment.query);
        links.set(key, link);
      }
    }
  }
  return [...links.values()];
}

/** Places sites evenly on an ellipse, the first at its top. */
function places(sites) {
  const many = sites.length > MOST_BOXES;
  const [across, down] = many ? [WIDTH / 2 - 76, HEIGHT / 2 - 26] : [(WIDTH - BOX.wide) / 2 - 4, (HEIGHT - BOX.tall) / 2 - 4];
  const alone = sites.length === 1 ? 0 : 1;
  const found = sites.map((_, n) => {
    const angle = -Math.PI / 2 + (2 * Math.PI * n) / sites.length;
    return { angle, x: WIDTH / 2 + alone * across * Math.cos(angle), y: HEIGHT / 2 + alone * down * Math.sin(angle) };
  });
  const lowest = Math.max(...found.map((place) => place.y));
  return { at: new Map(sites.map((site, n) => [site.site, found[n]])), tall: lowest + (many ? 26 : BOX.tall) };
}

/** An arc from one box towards another, which ends at the edge of that one. */
function arc(from, to, box) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const far = Math.hypot(dx, dy) || 1;
  const bend = Math.min(28, far / 8);
  const middle = { x: (from.x + to.x) / 2 - (dy / far) * bend, y: (from.y + to.y) / 2 + (dx / far) * bend };
  const [ex, ey] = [to.x - middle.x, to.y - middle.y];
  const scale = Math.min((box.wide / 2 + 5) / Math.abs(ex || 1e-9), (box.tall / 2 + 5) / Math.abs(ey || 1e-9));
  const end = { x: to.x - ex * scale, y: to.y - ey * scale };
  const label = { x: (from.x + 2 * middle.x + to.x) / 4, y: (from.y + 2 * middle.y + to.y) / 4 };
  return { path: `M${from.x.toFixed(1)} ${from.y.toFixed(1)}Q${middle.x.toFixed(1)} ${middle.y.toFixed(1)} ${end.x.toFixed(1)} ${end.y.toFixed(1)}`, label };
}

/** Is the map. It is drawn again where sites, fragments or links are others, and else only written. */
export class FlowMap {
  constructor(place, open) {
    this.place = place;
    this.open = open;
  }

  show(sites) {
    const links = linksBetween(sites);
    const shape = JSON.stringify([sites.map((site) => [site.site, site.silent, siteStanding(site).state, site.fragments.length]), links.map((link) => [link.from, link.to])]);
    const silent = new Set(sites.filter((site) => site.silent).map((site) => site.site));
    const figures = JSON.stringify(links.map((link) => text.count(link.rows)));
    const rests = sites.length > MOST_BOXES && performance.now() - this.drawnAt < REDRAW_MS;
    if (shape === this.shape && (figures === this.figures || rests)) return;
    [this.shape, this.figures, this.drawnAt] = [shape, figures, performance.now()];
    if (sites.length === 0) {
      this.place.replaceChildren(h("p", { class: "nothing" }, "No site has been heard of yet."));
      return;
    }
    const { at, tall } = places(sites);
    const small = sites.length > MOST_BOXES;
    const box = small ? DOT : BOX;
    const most = Math.max(...links.map((link) => link.rows), 1e-9);
    const arrows = links.map((link) => this.link({ ...link, old: silent.has(link.from) }, arc(at.get(link.from), at.get(link.to), box), most, small ? 1.5 : 3));
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${tall.toFixed(0)}`, role: "group", "aria-label": "Sites and the links between them" },
      svg("defs", {}, svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 11, markerHeight: 11, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8Z" }))),
      arrows.map(([path]) => path),
      sites.map((site) => this.site(site, at.get(site.site), small)),
      small ? [] : arrows.map(([, label]) => label));
    const list = h("ul", { class: "unseen" }, links.map((link) => h("li", {}, `${link.from} sends ${text.count(link.rows)} rows a second to ${link.to}, for ${[...link.queries].join(", ")}`)));
    this.place.replaceChildren(picture, links.length === 0 ? h("p", { class: "nothing" }, "No fragments at two sites are connected.") : list);
  }

  link(link, { path, label }, most, widest) {
    const said = `${link.from} → ${link.to}: ${text.count(link.rows)} rows/s for ${[...link.queries].join(", ")}`;
    const drawn = svg("path", { class: link.old ? "flow old" : "flow", d: path, "marker-end": "url(#head)" }, svg("title", {}, said));
    drawn.style.strokeWidth = `${(1 + widest * Math.sqrt(link.rows / most)).toFixed(1)}px`;
    const words = text.count(link.rows);
    const wide = 10 + 6.2 * words.length;
    const tag = svg("g", { class: "tag" },
      svg("rect", { x: label.x - wide / 2, y: label.y - 9, width: wide, height: 18, rx: 9 }),
      svg("text", { x: label.x, y: label.y + 4 }, words),
      svg("title", {}, said));
    return [drawn, tag];
  }

  site(site, { x, y, angle }, small) {
    const { state, said } = siteStanding(site);
    const fragments = text.plural(site.fragments.length, "fragment");
    const open = () => this.open(site.site);
    const pressed = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } };
    return svg("g", { class: "node", "data-state": state, tabindex: 0, role: "button", "aria-label": `${site.site}: ${said}, ${fragments}`, click: open, keydown: pressed },
      svg("title", {}, `${site.site}: ${said}, ${fragments}`),
      small ? dot(site.site, x, y, angle) : boxed(site.site, state === "bad" ? said : fragments, x, y));
  }
}

const shortened = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

function boxed(name, words, x, y) {
  const left = x - BOX.wide / 2;
  return [
    svg("rect", { x: left, y: y - BOX.tall / 2, width: BOX.wide, height: BOX.tall, rx: 8 }),
    svg("circle", { cx: left + 13, cy: y - 7, r: 4 }),
    svg("text", { class: "what", x: left + 23, y: y - 3 }, shortened(name, 13)),
    svg("text", { class: "more", x: left + 9, y: y + 14 }, words),
  ];
}

/** A dot with its name outside of the ring. */
function dot(name, x, y, angle) {
  const [across, down] = [Math.cos(angle), Math.sin(angle)];
  const side = Math.abs(across) < 0.2 ? "middle" : across > 0 ? "start" : "end";
  const height = side === "middle" ? y + (down > 0 ? 21 : -12) : y + 4 + 6 * down;
  return [
    svg("rect", { x: x - DOT.wide / 2, y: y - DOT.tall / 2, width: DOT.wide, height: DOT.tall, rx: 7 }),
    svg("circle", { cx: x, cy: y, r: 4 }),
    svg("text", { class: "more", x: x + (side === "middle" ? 0 : 12 * Math.sign(across)), y: height, "text-anchor": side }, shortened(name, 11)),
  ];
}
