// Logs of a job's pods as they come.

import { useEffect, useRef, useState } from "preact/hooks";
import type { LogLine, PodRow, Refused } from "../../generated/views";
import { go, useRoute, withQuery } from "../route";
import { follow } from "../stream";
import { plain } from "../units";

const MOST = 5000;
const DRAWN = 1000;

export function Logs(props: { job: { apiVersion: string; kind: string; namespace: string; name: string }; pods: PodRow[] }) {
  const route = useRoute();
  const pod = route.query.get("pod") ?? "";
  const container = route.query.get("container") ?? "";
  const [lines, setLines] = useState<LogLine[]>([]);
  const [ended, setEnded] = useState("");
  const [sticks, setSticks] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  const job = pod ? { apiVersion: "v1", kind: "Pod", namespace: props.job.namespace, name: pod } : props.job;
  const path = `/api/logs?${new URLSearchParams({ ...job, container, tail: "500" })}`;
  useEffect(() => {
    const ending = new AbortController();
    setLines([]);
    setEnded("");
    void follow(path, ending.signal, (event, data) => {
      if (event === "lines") setLines((old) => [...old, ...(data as LogLine[])].slice(-MOST));
      else if (event === "end") setEnded((data as Partial<Refused>).error ?? "The log has ended.");
      else if (event === "problem") setEnded(data as string);
      else if (event === "lost") setLines([]);
    });
    return () => ending.abort();
  }, [path]);
  useEffect(() => {
    if (sticks && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, sticks]);
  const containers = props.pods.find((each) => each.name === pod)?.containers ?? [];
  return (
    <section aria-label="Logs">
      <div class="filters">
        <label>
          Pod
          <select value={pod} onChange={(event) => go(withQuery(route, { pod: event.currentTarget.value, container: "" }))}>
            <option value="">all</option>
            {props.pods.map((each) => (
              <option key={each.name} value={each.name}>
                {each.name}
              </option>
            ))}
          </select>
        </label>
        {containers.length > 1 && (
          <label>
            Container
            <select
              value={container}
              onChange={(event) => go(withQuery(route, { container: event.currentTarget.value }))}
            >
              <option value="">the first</option>
              {containers.map((each) => (
                <option key={each} value={each}>
                  {each}
                </option>
              ))}
            </select>
          </label>
        )}
        <label class="check">
          <input type="checkbox" checked={sticks} onChange={(event) => setSticks(event.currentTarget.checked)} />
          Stay at the end
        </label>
      </div>
      <pre class="log" ref={box} tabIndex={0} role="log" aria-label="Log lines">
        {lines.slice(-DRAWN).map((line, index) => (
          <div key={index}>
            {!pod && <b>{line.pod} | </b>}
            {plain(line.text)}
          </div>
        ))}
      </pre>
      <p role="status">{ended || (lines.length ? "" : "No line yet; those that come are shown.")}</p>
    </section>
  );
}
