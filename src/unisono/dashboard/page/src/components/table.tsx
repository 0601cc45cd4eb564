// A table of which only the rows in sight exist. The server has sorted it and sends a window of it.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Column<Row> {
  name: string;
  title: string;
  /** Whether the server can sort by it. */
  sorts?: boolean;
  narrow?: boolean;
  /** Stands at the right, as numbers do. */
  right?: boolean;
  /** Takes the room that is left, and is cut where that is too little. */
  rest?: boolean;
  cell: (row: Row) => ComponentChildren;
}

const ROW = 33; // pixels, as style.css has it
const AHEAD = 20;

function classOf<Row>(column: Column<Row>): string {
  return [column.narrow && "narrow", column.right && "number", column.rest && "rest"].filter(Boolean).join(" ");
}

export function Table<Row>(props: {
  label: string;
  columns: Column<Row>[];
  order: string[];
  rows: Record<string, Row>;
  offset: number;
  matched: number;
  sort: string;
  onSort: (column: string) => void;
  /** Rows from `offset` on are wanted. */
  onWindow: (offset: number, limit: number) => void;
  empty: string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setHeight(element.clientHeight);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const first = Math.floor(top / ROW);
  const shown = Math.ceil(height / ROW) + 1;
  useEffect(() => {
    const last = Math.min(first + shown, props.matched);
    if (first >= props.offset && last <= props.offset + props.order.length) return;
    const timer = window.setTimeout(() => props.onWindow(Math.max(0, first - AHEAD), shown + 2 * AHEAD), 60);
    return () => window.clearTimeout(timer);
  }, [first, shown, props.offset, props.order.length, props.matched]);
  const from = Math.max(first - AHEAD, props.offset);
  const to = Math.min(first + shown + AHEAD, props.offset + props.order.length);
  const keys = props.order.slice(from - props.offset, Math.max(to - props.offset, 0));
  const sorted = props.sort.replace(/^-/, "");
  return (
    <div class="table-box" ref={box} tabIndex={0} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
      <table aria-label={props.label} aria-rowcount={props.matched + 1}>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th
                key={column.name}
                scope="col"
                class={classOf(column)}
                aria-sort={column.name !== sorted ? undefined : props.sort.startsWith("-") ? "descending" : "ascending"}
              >
                {column.sorts ? (
                  <button type="button" class="sort" onClick={() => props.onSort(column.name)}>
                    {column.title}
                    {column.name === sorted ? (props.sort.startsWith("-") ? " ▾" : " ▴") : ""}
                  </button>
                ) : (
                  column.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {from > 0 && (
            <tr aria-hidden="true" style={{ height: `${from * ROW}px` }}>
              <td colSpan={props.columns.length} class="gap" />
            </tr>
          )}
          {keys.map((key, index) => {
            const row = props.rows[key];
            return (
              row && (
                <tr key={key} aria-rowindex={from + index + 2}>
                  {props.columns.map((column) => (
                    <td key={column.name} class={classOf(column)}>
                      {column.cell(row)}
                    </td>
                  ))}
                </tr>
              )
            );
          })}
          {props.matched > from + keys.length && (
            <tr aria-hidden="true" style={{ height: `${(props.matched - from - keys.length) * ROW}px` }}>
              <td colSpan={props.columns.length} class="gap" />
            </tr>
          )}
        </tbody>
      </table>
      {props.matched === 0 && <p class="empty">{props.empty}</p>}
    </div>
  );
}
