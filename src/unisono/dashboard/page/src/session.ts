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
    localStorage.setItem(KEY, who.key);
    localStorage.setItem(USER, who.user);
  } else {
    localStorage.removeItem(KEY);
    localStorage.removeItem(USER);
  }
  for (const told of listeners) told();
}

/** The server does not know the session any more. */
export function forget(): void {
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
  if (answer.status === 401 && path !== "/api/session") forget();
  const refused = told as Partial<Refused>;
  throw new Failure(refused.error ?? `The server answered ${answer.status}.`, answer.status);
}

export async function signIn(given: { code: string } | { token: string; namespaces: string[] }): Promise<void> {
  keep(await request<Who>("POST", "/api/session", given));
}

export async function signOut(): Promise<void> {
  await request("DELETE", "/api/session").catch(() => undefined);
  keep(null);
}
