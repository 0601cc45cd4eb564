// Numbers in units that people use.

/** `2 h 5 min` for a number of seconds. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return parts(minutes, "min", whole % 60, "s", minutes < 10);
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return parts(hours, "h", minutes % 60, "min", true);
  return parts(Math.floor(hours / 24), "d", hours % 24, "h", true);
}

function parts(large: number, unit: string, small: number, below: string, both: boolean): string {
  return both && small ? `${large} ${unit} ${small} ${below}` : `${large} ${unit}`;
}

/** How long ago a time was; empty for none. */
export function age(time: number, now: number): string {
  return time ? duration(now - time) : "";
}

/** `75 %` for 0.75. */
export function percent(share: number): string {
  const value = share * 100;
  return `${value > 0 && value < 10 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)} %`;
}

/** `1 pod`, `2 pods`. */
export function count(number: number, word: string): string {
  return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}

/** Date and time of day as on a wall clock here: `2026-11-25 18:55:20`. */
export function clock(time: number): string {
  // Swedish writes both as ISO 8601 does, in the viewer's own time zone.
  return time ? new Date(time * 1000).toLocaleString("sv-SE") : "";
}

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Whether a resource is counted in bytes. */
export function isBytes(resource: string): boolean {
  return resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
}

/** `6.3 TiB` or `16.3` for an amount in bytes, or in thousandths. */
export function amount(resource: string, value: number): string {
  if (!isBytes(resource)) return number(value / 1000);
  let [rest, unit] = [value, 0];
  while (Math.abs(rest) >= 999.5 && unit < BINARY.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${number(rest)} ${BINARY[unit]}`;
}

/** A number with as many digits as people read: `1,624`, `16.3`, `0.25`. */
export function number(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

/** `GPU (nvidia.com/gpu)`, `CPU`, `Memory`: a resource as people call it, with the name that manifests have. */
export function resourceTitle(name: string): string {
  if (name === "cpu") return "CPU";
  if (name === "memory") return "Memory";
  return name.endsWith("/gpu") ? `GPU (${name})` : name;
}

/** A line of the scheduler as people say it: `8 GPUs` for `nvidia.com/gpu 8`, `1 CPU` for `cpu 1`. */
export function inWords(line: string): string {
  return line
    .replace(/\b(?:[a-z0-9.-]+\/gpu) (\d[\d.]*)(?![\w/])/g, (_, amount: string) => unit(amount, "GPU"))
    .replace(/\bcpu (\d[\d.]*m?)(?![\w/])/g, (_, amount: string) => (amount.endsWith("m") ? `cpu ${amount}` : unit(amount, "CPU")))
    .replace(/([GC]PUs(?: more)?(?: of [\d,.]+)?) is (asked for|free)/g, "$1 are $2");
}

function unit(amount: string, word: string): string {
  const value = amount.replace(/\.$/, "");
  const rest = amount.slice(value.length);
  return `${Number(value).toLocaleString("en", { maximumFractionDigits: 3 })} ${word}${value === "1" ? "" : "s"}${rest}`;
}

/** With a capital at its beginning. */
export function sentence(text: string): string {
  return (text[0]?.toUpperCase() ?? "") + text.slice(1);
}

// Colours, titles and links that terminals obey: CSI, OSC and other strings, and two-character sequences.
const SEQUENCES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])/g;
// Other control characters, and marks that turn the direction of what follows.
const OBEYED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A line of a log as a terminal would leave it, without what only a terminal obeys: of a progress bar the last state. */
export function plain(line: string): string {
  const told = line.replace(SEQUENCES, "").replace(/\r+$/, "");
  return told.slice(told.lastIndexOf("\r") + 1).replace(OBEYED, "");
}
