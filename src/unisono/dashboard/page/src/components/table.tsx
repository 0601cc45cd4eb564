// A table of which only the rows in sight exist. The server has sorted it and sends a window of it.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Column<Row> {
  name: string;
  title: string;
  /** Whether the server can sort by it. */
  sorts?: boolean;
  /** Left out where the page is narrow; `medium`: also on smaller screens. */
  narrow?: boolean;
  medium?: boolean;
  /** There alone where the page is not narrow: elsewhere another cell says it. */
  wide?: boolean;
  /** Stands at the right, as numbers do. */
  right?: boolean;
  /** Takes the room that is left, and is cut where that is too little. */
  rest?: boolean;
  cell: (row: Row) => ComponentChildren;
}

// Pixels, as style.css has them; where the page is narrow, a row has three lines.
const ROW = 33;
const NARROW_ROW = 78;
const NARROW = matchMedia("(max-width: 50rem)");
const AHEAD = 20;

function classOf<Row>(column: Column<Row>): string {
  return [column.narrow && "narrow", column.medium && "medium", column.wide && "narrow", column.right && "number", column.rest && "rest"].filter(Boolean).join(" ");
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
  const row = useRowHeight();
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setHeight(element.clientHeight);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const first = Math.floor(top / row);
  const shown = Math.ceil(height / row) + 1;
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
            <tr aria-hidden="true" style={{ height: `${from * row}px` }}>
              <td colSpan={props.columns.length} class="gap" />
            </tr>
          )}
          {keys.map((key, index) => {
            const shownRow = props.rows[key];
            return (
              shownRow && (
                <tr key={key} aria-rowindex={from + index + 2}>
                  {props.columns.map((column) => (
                    <td key={column.name} class={classOf(column)}>
                      {column.cell(shownRow)}
                    </td>
                  ))}
                </tr>
              )
            );
          })}
          {props.matched > from + keys.length && (
            <tr aria-hidden="true" style={{ height: `${(props.matched - from - keys.length) * row}px` }}>
              <td colSpan={props.columns.length} class="gap" />
            </tr>
          )}
        </tbody>
      </table>
      {props.matched === 0 && <p class="empty">{props.empty}</p>}
    </div>
  );
}

function useRowHeight(): number {
  const [narrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const look = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", look);
    return () => NARROW.removeEventListener("change", look);
  }, []);
  return narrow ? NARROW_ROW : ROW;
}
