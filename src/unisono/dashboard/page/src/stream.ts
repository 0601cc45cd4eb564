// A view that the server keeps current: events over one request, the first with all of it, the next with what changes.

import { useEffect, useState } from "preact/hooks";
import type { Refused } from "../generated/views";
import { forget, key } from "./session";

type Json = Record<string, unknown>;

/** What a view is at the moment. `lost`: the server does not answer; what is shown is what it said last. */
export interface Live<T> {
  view: T | null;
  lost: boolean;
  problem: string;
  /** How far the server's first look at the cluster is; empty where that is done. */
  reading: string;
}

const SILENT_MS = 40_000; // the server says something every 15 s
const RETRY_MS = [500, 1000, 2000, 5000];

/** Apply a JSON merge patch; what it does not name stays the same object, so that unchanged rows are not drawn again. */
export function merged(old: unknown, patch: Json): Json {
  const found: Json = isObject(old) ? { ...old } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete found[name];
    else found[name] = isObject(value) ? merged(found[name], value) : value;
  }
  return found;
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Events of a response as they come. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<{ event: string; data: unknown }> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const lines = rest.slice(0, end).split("\n");
        rest = rest.slice(end + 2);
        const field = (name: string) =>
          lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? "";
        const data = field("data");
        yield { event: field("event"), data: data ? (JSON.parse(data) as unknown) : null };
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/** Open a stream and keep it open until `signal` says otherwise. */
export async function follow(
  path: string,
  signal: AbortSignal,
  tell: (event: string, data: unknown) => void,
): Promise<void> {
  for (let failures = 0; !signal.aborted; ) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop);
    let silence = window.setTimeout(stop, SILENT_MS);
    let answered = false;
    try {
      const answer = await fetch(path, { headers: { "X-Unisono-Key": key() }, signal: attempt.signal });
      answered = true;
      if (!answer.ok || !answer.body) {
        const told = (await answer.json().catch(() => ({}))) as Partial<Refused>;
        if (answer.status === 401) forget(told.error ?? "");
        tell("problem", told.error ?? `The server answered ${answer.status}.`);
        if (answer.status < 500 && answer.status !== 429) return;
      } else {
        for await (const { event, data } of events(answer.body)) {
          window.clearTimeout(silence);
          silence = window.setTimeout(stop, SILENT_MS);
          if (!event) continue;
          failures = 0;
          if (event === "refused") {
            forget((data as Partial<Refused>).error ?? "");
            return;
          }
          tell(event, data);
          if (event === "end") return;
        }
      }
    } catch {
      // The request was ended, or the server is not there.
    } finally {
      window.clearTimeout(silence);
      signal.removeEventListener("abort", stop);
    }
    if (signal.aborted) return;
    tell("lost", answered);
    const pause = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)] ?? 5000;
    await new Promise((done) => window.setTimeout(done, pause));
  }
}

/** The view at a path; while another path is opened, what was shown stays. */
export function useView<T>(path: string): Live<T> {
  const [live, setLive] = useState<Live<T>>({ view: null, lost: false, problem: "", reading: "" });
  useEffect(() => {
    const ending = new AbortController();
    void follow(path, ending.signal, (event, data) =>
      setLive((old) => {
        if (event === "view") return { view: data as T, lost: false, problem: "", reading: "" };
        if (event === "change") return { ...old, view: merged(old.view, data as Json) as T, lost: false, problem: "" };
        if (event === "reading") return { ...old, reading: data as string };
        if (event === "problem") return { ...old, problem: data as string };
        // What a server said last is no news any more when there is none, as when it said that it stops.
        return { ...old, lost: true, problem: data ? old.problem : "" };
      }),
    );
    return () => ending.abort();
  }, [path]);
  return live;
}
