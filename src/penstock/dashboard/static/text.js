// Writes figures for people; a figure that nobody knows is a dash.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** Three digits of a number, and none of them a zero behind the point. */
const rounded = (value) => `${Number(value.toPrecision(3))}`;

export const NONE = "–";

const known = (value) => value !== null && value !== undefined;

export const sic = (value, digits = 2) => (known(value) ? value.toFixed(digits) : NONE);

export const percent = (share) => (known(share) ? `${Math.round(share * 100)} %` : NONE);

/** A count: whole up to 9,999, and then shortened. */
export const count = (value) => {
  if (!known(value)) return NONE;
  return value < 10_000 ? whole.format(value) : short.format(value);
};

export const exact = (value) => (known(value) ? whole.format(value) : NONE);

export const milliseconds = (value) => {
  if (!known(value)) return NONE;
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
};

/** A latency that somebody has asked for: no zero behind its point. */
export const target = (value) => (value > 0 ? duration(value / 1000) : NONE);

/** A short time, from a fraction of a microsecond on. */
export const duration = (seconds) => {
  if (!known(seconds)) return NONE;
  if (seconds < 1e-3) return `${rounded(seconds * 1e6)} µs`;
  if (seconds < 1) return `${rounded(seconds * 1e3)} ms`;
  return `${rounded(seconds)} s`;
};

/** A small share, such as the SIC of one tuple. */
export const tiny = (value) => {
  if (!known(value) || value === 0) return NONE;
  const digits = Math.max(0, Math.floor(-Math.log10(value)));
  const superscript = [...String(digits + 1)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("");
  return value >= 0.01 ? value.toFixed(3) : `${(value * 10 ** (digits + 1)).toFixed(1)} × 10⁻${superscript}`;
};

export const clock = (at) => time.format(new Date(at * 1000));

export const ago = (seconds) => {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
};

export const plural = (n, one, many = `${one}s`) => `${whole.format(n)} ${n === 1 ? one : many}`;
