// Nodes over time: which jobs hold them since when, and until when by what these say of their end.

import type { Held, NodeCell } from "../../generated/views";
import { clock, duration } from "../units";
import { Axis, partOf, ticks, timeOf } from "./gantt";

const LONGEST = 12 * 3600; // s on each side of now; what lasts longer is cut there
const SHORTEST = 600;

export function Timeline(props: {
  cells: NodeCell[];
  colour: (held: Held) => string;
  now: number;
  onChoose: (name: string) => void;
}) {
  const { cells, now } = props;
  const held = cells.flatMap((cell) => cell.held);
  const since = Math.min(now - SHORTEST, ...held.map((each) => each.since || now));
  const until = Math.max(now + SHORTEST, ...held.map((each) => each.ends));
  const begin = Math.max(since, now - LONGEST);
  const end = Math.min(until, now + LONGEST);
  const part = partOf(begin, end);
  const times = ticks(begin, end);
  return (
    <figure class="gantt timeline">
      <figcaption>
        <span>
          {clock(begin)} to {clock(end)}, jobs of which nothing says when they end go on
        </span>
        <span class="legend">
          <i class="gang-mark" /> now
        </span>
      </figcaption>
      <Axis times={times} part={part} label={(time) => timeOf(time, end - begin > 86400, false)} />
      {cells.map((cell) => (
        <div key={cell.name} class="gantt-row">
          <button type="button" class="gantt-name link" onClick={() => props.onChoose(cell.name)}>
            {cell.name}
          </button>
          <span class="gantt-track" role="img" aria-label={`${cell.name}: ${told(cell, now)}`}>
            {times.map((time) => (
              <i key={time} class="tick" style={{ left: `${part(time)}%` }} />
            ))}
            {lanes(cell).map(({ each, top, height }) => {
              const from = part(each.since || begin);
              return (
                <i
                  key={each.job}
                  class={`${props.colour(each)} ${each.ends > now ? "" : "open"}`}
                  title={`${each.job}${each.user ? ` of ${each.user}` : ""}: ${each.amount}${each.ends > now ? `, ends within ${duration(each.ends - now)}` : ""}`}
                  style={{ left: `${from}%`, width: `${part(each.ends > now ? each.ends : end) - from}%`, top: `${top}%`, height: `${height}%` }}
                />
              );
            })}
            <i class="gang-mark" style={{ left: `${part(now)}%` }} />
          </span>
        </div>
      ))}
    </figure>
  );
}

/** Holders one below the other, as high as their part of the node's devices; of a node without devices equally high. */
function lanes(cell: NodeCell): { each: Held; top: number; height: number }[] {
  const whole = cell.cards || cell.held.length;
  let top = 0;
  return cell.held.map((each) => {
    const height = (100 * (cell.cards ? each.cards : 1)) / whole;
    const lane = { each, top, height };
    top += height;
    return lane;
  });
}

function told(cell: NodeCell, now: number): string {
  if (!cell.held.length) return "no job holds anything";
  return cell.held.map((each) => `${each.job} ${each.amount}${each.ends > now ? `, ${duration(each.ends - now)} left` : ""}`).join("; ");
}
