// Colours for the few that hold most of what is in sight. More than these nobody can tell apart: the others are grey.

const COLOURS = 11; // as style.css has them, for light and for dark

function hashed(name: string): number {
  let hash = 2166136261;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619);
  return (hash >>> 0) % COLOURS;
}

/** A CSS class for each of those that hold most, the largest first; each has a colour that no other one has. */
export function colourClasses(amounts: Map<string, number>): Map<string, string> {
  const largest = [...amounts].sort(([a, most], [b, other]) => other - most || (a < b ? -1 : 1)).slice(0, COLOURS);
  const taken = new Map<string, number>();
  // In the order of their names: the same ones have the same colours, whatever holds more by now.
  for (const name of largest.map(([each]) => each).sort()) {
    let colour = hashed(name);
    while ([...taken.values()].includes(colour)) colour = (colour + 1) % COLOURS;
    taken.set(name, colour);
  }
  return new Map(largest.map(([name]) => [name, `job-${taken.get(name)}`]));
}

/** The colour of one that is none of these. */
export const OTHERS = "job-others";
