// A part of a page with its heading.

import type { ComponentChildren } from "preact";

export function Card(props: { title: string; hint?: string; class?: string; children: ComponentChildren }) {
  return (
    <section class={`card ${props.class ?? ""}`} aria-label={props.title}>
      <h2>
        {props.title} {props.hint && <span class="hint">{props.hint}</span>}
      </h2>
      {props.children}
    </section>
  );
}

/** A table that scrolls to the side where it is too wide; `right`: columns with numbers. */
export function Grid(props: { label: string; titles: string[]; right?: number[]; children: ComponentChildren }) {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={props.label}>
      <table aria-label={props.label}>
        <thead>
          <tr>
            {props.titles.map((title, index) => (
              <th key={title} scope="col" class={props.right?.includes(index) ? "number" : ""}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
}
