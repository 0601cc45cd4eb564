// A colour for each job, the same on every page: by its name, among few that can be told apart.

const HUES = [210, 28, 150, 320, 265, 50, 185, 0, 95, 235, 340, 170];

/** A CSS class for a job's cards; style.css has the colours, for light and for dark. */
export function colourClass(name: string): string {
  let hash = 2166136261;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619);
  return `job-${(hash >>> 0) % HUES.length}`;
}
