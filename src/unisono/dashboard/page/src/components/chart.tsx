// Lines over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { percent } from "../units";

const COLOURS = ["#2f7ed8", "#d9822b", "#3d9970", "#b03a8c", "#8a6d3b", "#6f5fd8", "#c0392b", "#16808a"];
const HEIGHT = 200;

export function Chart(props: { title: string; times: number[]; lines: { name: string; values: number[] }[] }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const names = props.lines.map((line) => line.name).join("\n");
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const ink = getComputedStyle(element).color;
    const axis = { stroke: ink, grid: { stroke: "rgba(128,128,128,0.25)" }, ticks: { stroke: "rgba(128,128,128,0.25)" } };
    plot.current = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        scales: { y: { range: [0, 1] } },
        axes: [axis, { ...axis, values: (_, values) => values.map(percent) }],
        series: [
          {},
          ...props.lines.map((line, index) => ({
            label: line.name,
            stroke: COLOURS[index % COLOURS.length] as string,
            width: 2,
            value: (_: uPlot, value: number | null) => (value === null ? "" : percent(value)),
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
  }, [names]);
  useEffect(() => {
    plot.current?.setData([props.times, ...props.lines.map((line) => line.values)]);
  }, [props.times, props.lines]);
  const last = props.lines.map((line) => `${line.name} ${percent(line.values.at(-1) ?? 0)}`).join(", ");
  return (
    <figure class="chart" aria-label={`${props.title}, now: ${last}`}>
      <figcaption>{props.title}</figcaption>
      <div ref={box} />
    </figure>
  );
}
