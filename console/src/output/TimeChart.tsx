// Lines over time or over numbers; the library is loaded with the first of them.
import { useEffect, useRef } from 'react'
import UPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { TONES } from './Charts'
import type { ChartData } from './kinds'
import css from './Output.module.css'

const HEIGHT = 220

export function TimeChart({ data, label }: { data: ChartData; label: string }) {
  const host = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const box = host.current
    if (!box) return
    const colour = (name: string) => resolved(box, name)
    const order = data.x.values.map((x, index) => [Number(x), index] as const).sort(([left], [right]) => left - right)
    const columns = [
      order.map(([x]) => x),
      ...data.series.map(({ values }) => order.map(([, index]) => values[index] ?? null)),
    ]
    const axis = {
      stroke: colour('var(--ink-2)'),
      grid: { stroke: colour('var(--line)'), width: 1 },
      ticks: { stroke: colour('var(--line)'), width: 1, size: 4 },
      font: `12px ${getComputedStyle(box).fontFamily}`,
    }
    const chart = new UPlot(
      {
        width: box.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false },
        scales: { x: { time: data.x.kind === 'time' } },
        axes: [axis, { ...axis, size: 56 }],
        series: [
          {},
          ...data.series.map(({ name }, index) => ({
            label: name.slice(0, 60),
            stroke: colour(TONES[index] ?? 'var(--ink)'),
            width: 1.5,
            points: { show: data.x.values.length <= 40 },
          })),
        ],
      },
      columns as UPlot.AlignedData,
      box,
    )
    const watcher = new ResizeObserver(() => chart.setSize({ width: box.clientWidth, height: HEIGHT }))
    watcher.observe(box)
    return () => {
      watcher.disconnect()
      chart.destroy()
    }
  }, [data])
  return (
    <div
      ref={host}
      className={css.chart}
      role="img"
      aria-label={`${label}: a line chart; the numbers are in the table below`}
    />
  )
}

/** A canvas knows no custom properties and no light-dark(). */
function resolved(box: HTMLElement, colour: string): string {
  const probe = document.createElement('span')
  probe.style.color = colour
  box.append(probe)
  const found = getComputedStyle(probe).color
  probe.remove()
  return found
}
