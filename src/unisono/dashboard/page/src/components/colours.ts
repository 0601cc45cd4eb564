// A colour for each job, among few that can be told apart: by its name, and another one where that is taken already.

const COLOURS = 12; // as style.css has them, for light and for dark

function hashed(name: string): number {
  let hash = 2166136261;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619);
  return (hash >>> 0) % COLOURS;
}

/** CSS classes of jobs that are in sight together: different ones, unless there are more jobs than colours. */
export function colourClasses(names: Iterable<string>): Map<string, string> {
  const found = new Map<string, string>();
  const taken = new Set<number>();
  // In the order of their names: the same jobs have the same colours, whatever holds them.
  for (const name of [...new Set(names)].sort()) {
    let colour = hashed(name);
    for (let tries = 0; tries < COLOURS && taken.has(colour); tries++) colour = (colour + 1) % COLOURS;
    taken.add(colour);
    found.set(name, `job-${colour}`);
  }
  return found;
}
