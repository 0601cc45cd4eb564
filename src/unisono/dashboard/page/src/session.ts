// Who is signed in. The cookie is out of reach of scripts; the key, which other sites cannot read, is kept here.

import { useEffect, useState } from "preact/hooks";
import type { Refused, Who } from "../generated/views";

const KEY = "unisono-key";
const USER = "unisono-user";
const listeners = new Set<() => void>();

export class Failure extends Error {
  constructor(
    message: string,
    readonly code: number,
  ) {
    super(message);
  }
}

export function key(): string {
  return localStorage.getItem(KEY) ?? "";
}

/** The name of the signed-in user; empty for none. The component is drawn again when that changes. */
export function useUser(): string {
  const [user, setUser] = useState(localStorage.getItem(USER) ?? "");
  useEffect(() => {
    const look = () => setUser(localStorage.getItem(USER) ?? "");
    listeners.add(look);
    window.addEventListener("storage", look);
    return () => {
      listeners.delete(look);
      window.removeEventListener("storage", look);
    };
  }, []);
  return user;
}

function keep(who: Who | null): void {
  if (who) {
    ending = "";
    localStorage.setItem(KEY, who.key);
    localStorage.setItem(USER, who.user);
  } else {
    localStorage.removeItem(KEY);
    localStorage.removeItem(USER);
  }
  for (const told of listeners) told();
}

let ending = "";

/** Why the session has ended that was open in this tab; empty where none was, or its user has ended it. */
export function whyEnded(): string {
  return ending;
}

/** The server does not know the session any more, and says why. */
export function forget(why: string): void {
  // A stream may hear of the end before the answer to who signs out.
  if (localStorage.getItem(KEY) && !signingOut) ending = why;
  keep(null);
}

/** Ask the server; a refusal is thrown in the server's own words. */
export async function request<T>(method: string, path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = { "X-Unisono-Key": key() };
  if (method !== "GET") headers["Content-Type"] = "application/json";
  let answer: Response;
  try {
    answer = await fetch(path, { method, headers, body: method === "GET" ? null : JSON.stringify(body ?? {}) });
  } catch {
    throw new Failure("The server does not answer.", 0);
  }
  const told: unknown = await answer.json().catch(() => ({}));
  if (answer.ok) return told as T;
  const refused = told as Partial<Refused>;
  if (answer.status === 401 && path !== "/api/session") forget(refused.error ?? "");
  throw new Failure(refused.error ?? `The server answered ${answer.status}.`, answer.status);
}

/** Sign in with a link's code, a token, or nothing: then an authenticating proxy before the server may say who it is. */
export async function signIn(given: { code?: string; token?: string; namespaces?: string[] }): Promise<void> {
  keep(await request<Who>("POST", "/api/session", given));
}

let signedOut = false;
let signingOut = false;

/** Whether the user has just signed out in this tab. */
export function wasSignedOut(): boolean {
  return signedOut;
}

export async function signOut(): Promise<void> {
  signingOut = true;
  // Of an earlier end, after which another tab has signed in.
  ending = "";
  await request("DELETE", "/api/session").catch(() => undefined);
  signingOut = false;
  signedOut = true;
  keep(null);
}

/** Whether there is a fleet that the user may see. */
export function useFleet(user: string): boolean {
  const [fleet, setFleet] = useState(false);
  useEffect(() => {
    let current = true;
    if (user)
      request<Who>("GET", "/api/session").then(
        (who) => current && setFleet(who.fleet),
        (error: unknown) => {
          // The server may have forgotten the session while the page was closed.
          if (current && error instanceof Failure && error.code === 401) forget(error.message);
        },
      );
    return () => {
      current = false;
    };
  }, [user]);
  return fleet;
}
