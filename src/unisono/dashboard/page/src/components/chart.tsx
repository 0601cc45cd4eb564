// Lines over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

/** Told apart without colours, too: the first has a full line, what is deserved a broken one. */
export const COLOURS = ["#2f7ed8", "#d9822b", "#2f9e6e", "#b03a8c", "#8a6d3b", "#6f5fd8", "#c0392b", "#16808a"];
const HEIGHT = 220;

export interface ChartLine {
  name: string;
  values: (number | null)[];
  /** Number of its colour. */
  colour: number;
  dashed?: boolean;
}

export function Chart(props: { title: string; times: number[]; lines: ChartLine[]; most?: number; text: (value: number) => string }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shape = JSON.stringify([props.lines.map((line) => [line.name, line.colour, line.dashed]), props.most]);
  const scheme = useScheme();
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const ink = getComputedStyle(element).color;
    const faint = "rgba(128,128,128,0.22)";
    const axis = { stroke: ink, grid: { stroke: faint, width: 1 }, ticks: { stroke: faint }, font: "12px system-ui, sans-serif" };
    plot.current = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        cursor: { y: false },
        legend: { markers: { dash: (_, index) => (props.lines[index - 1]?.dashed ? "dashed" : "solid") } },
        // Where nothing is pointed at, the legend tells the newest values.
        hooks: { setCursor: [(self) => self.cursor.idx === null && self.setLegend({ idx: self.data[0].length - 1 }, false)] },
        scales: { y: { range: (_, __, max) => [0, Math.max(props.most ?? 0, max * 1.05, 1e-9)] } },
        axes: [
          { ...axis, values: [...TIMES] },
          { ...axis, size: 64, values: (_, values) => values.map(props.text) },
        ],
        series: [
          { value: "{YYYY}-{MM}-{DD} {HH}:{mm}" },
          ...props.lines.map((line) => ({
            label: line.name,
            stroke: COLOURS[line.colour % COLOURS.length] as string,
            width: line.dashed ? 1.5 : 2,
            points: { show: false },
            ...(line.dashed ? { dash: [6, 4] } : {}),
            value: (_: uPlot, value: number | null) => (value === null ? "–" : props.text(value)),
          })),
        ],
      },
      [props.times, ...props.lines.map((line) => line.values)],
      element,
    );
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, scheme]);
  useEffect(() => {
    plot.current?.setData([props.times, ...props.lines.map((line) => line.values)]);
    plot.current?.setLegend({ idx: props.times.length - 1 }, false);
  }, [props.times, props.lines]);
  const last = props.lines.map((line) => `${line.name} ${props.text(line.values.at(-1) ?? 0)}`).join(", ");
  return (
    <figure class="chart" role="img" aria-label={`${props.title}; at its end: ${last}`}>
      <div ref={box} />
    </figure>
  );
}

// Ticks of the time axis, on a clock with 24 hours: as uPlot wants them, [least step in s, text, on a new year, day, ...].
const TIMES = [
  [3600 * 24 * 365, "{YYYY}", null, null, null, null, null, null, 1],
  [3600 * 24 * 28, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [3600 * 24, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
] as unknown as string[];

function useScheme(): string {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
