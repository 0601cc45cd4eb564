// What queues used over time, against what they deserve.

import { useMemo, useState } from "preact/hooks";
import { type Line, RANGES, type Series, secondsOf, usePast } from "../history";
import { useNow } from "../now";
import { amount, clock, isBytes, resourceTitle } from "../units";
import { Chart, type ChartLine } from "./chart";

const MOST = 8;

export function SharesOverTime(props: { queue?: string; resources: string[] }) {
  const [range, setRange] = useState("1h");
  const [chosen, setChosen] = useState("");
  const resource = chosen || props.resources[0] || "cpu";
  const minute = Math.floor(useNow(30_000) / 30) * 30;
  const { told, problem } = usePast<Series>("shares", {
    from: String(minute - secondsOf(range)),
    resource,
    ...(props.queue ? { queue: props.queue } : {}),
    points: "240",
  });
  const lines = useMemo(() => (told ? drawn(told, props.queue ?? "") : []), [told, props.queue]);
  const capacity = told?.lines.find((line) => !line.queue)?.capacity?.at(-1) ?? 0;
  const text = (value: number) => amount(resource, value);
  return (
    <>
      <div class="filters">
        <label>
          Resource
          <select value={resource} onChange={(event) => setChosen(event.currentTarget.value)}>
            {props.resources.map((name) => (
              <option key={name} value={name}>
                {resourceTitle(name)}
              </option>
            ))}
          </select>
        </label>
        <label>
          Time
          <select value={range} onChange={(event) => setRange(event.currentTarget.value)}>
            {RANGES.map(([name, title]) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
      </div>
      {problem && <p class="hint">{problem}</p>}
      {told && lines.length === 0 && !problem && <p class="empty">Nothing is noted for this time yet: use is written down every minute.</p>}
      {told && lines.length > 0 && (
        <Chart
          title={`${resourceTitle(resource)} by queue, in the ${RANGES.find(([name]) => name === range)?.[1]}`}
          times={told.times}
          lines={lines}
          {...(props.queue || isBytes(resource) ? {} : { most: capacity })}
          text={text}
        />
      )}
      {told?.since ? <p class="hint">The history begins {clock(told.since)}: nothing is drawn before.</p> : null}
    </>
  );
}

/** The queues that used most, each with what it deserves as a broken line. */
function drawn(told: Series, queue: string): ChartLine[] {
  const sum = (line: Line) => (line.used ?? []).reduce((total, each) => total + each, 0);
  const shown = told.lines
    // Of a queue that has only other queues below it, these tell what is used.
    .filter((line) => line.queue && (queue ? line.queue === queue : sum(line) > 0))
    .sort((a, b) => sum(b) - sum(a) || a.queue.localeCompare(b.queue))
    .slice(0, MOST)
    .sort((a, b) => a.queue.localeCompare(b.queue));
  const known = (values: number[]) => values.map((value, index) => ((told.times[index] ?? 0) < (told.since ?? 0) ? null : value));
  return shown.flatMap((line, colour) => {
    const found: ChartLine[] = [{ name: queue ? "used" : line.queue, values: known(line.used ?? []), colour }];
    if (line.deserved)
      found.push({ name: queue ? "deserved" : `${line.queue} deserves`, values: known(line.deserved), colour: queue ? 1 : colour, dashed: true });
    if (queue && line.capability) found.push({ name: "capability", values: known(line.capability), colour: 6, dashed: true });
    return found;
  });
}
