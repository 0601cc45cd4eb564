// When waiting jobs may start, by simulated futures of the cluster as it is.

import { useState } from "preact/hooks";
import type { Futures, Moved } from "../../generated/views";
import { Failure, request } from "../session";
import { duration } from "../units";

export interface Estimates {
  ask: () => Promise<void>;
  busy: boolean;
  problem: string;
  told: Futures | null;
  /** What is known of a job, by `namespace/name`. */
  of: (job: string) => Moved | undefined;
}

export function useEstimates(): Estimates {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [told, setTold] = useState<Futures | null>(null);
  const ask = async () => {
    setBusy(true);
    setProblem("");
    try {
      setTold(await request<Futures>("POST", "/api/whatif", { changes: "" }));
    } catch (error) {
      setProblem(error instanceof Failure ? error.message : String(error));
    }
    setBusy(false);
  };
  return { ask, busy, problem, told, of: (job) => told?.moved.find((each) => each.name === job) };
}

/** `in 2 h 5 min`, `now`, or `not within 4 h`. */
export function when(seconds: number, until: number): string {
  if (seconds < 0) return `not within ${duration(until)}`;
  return seconds < 1 ? "now" : `in ${duration(seconds)}`;
}

export function between(each: Moved, until: number): string {
  if (each.low === each.high) return each.known ? "" : "its run time is not known";
  return `${each.low < 0 ? "" : `${when(each.low, until)} `}to ${when(each.high, until)}${each.known ? "" : "; run times are guesses"}`;
}

export function Estimate(props: { namespace: string; name: string }) {
  const estimates = useEstimates();
  const { told } = estimates;
  const found = estimates.of(`${props.namespace}/${props.name}`);
  return (
    <section class="card" aria-label="Estimated start">
      <h2>Estimated start</h2>
      <div class="actions">
        <button type="button" disabled={estimates.busy} onClick={() => void estimates.ask()}>
          {estimates.busy ? "Simulating …" : "Estimate"}
        </button>
        <span role="status" class={estimates.problem ? "problem" : ""}>
          {estimates.problem}
          {!told && !estimates.problem && !estimates.busy && (
            <span class="hint">simulates copies of the cluster; nothing is changed</span>
          )}
          {told && !estimates.problem && !found && "Nothing is known of its start."}
          {told && found && !estimates.problem && (
            <>
              <b>{when(found.before, told.until)}</b> <span class="hint">{between(found, told.until)}, by {told.source}</span>
            </>
          )}
        </span>
      </div>
    </section>
  );
}
