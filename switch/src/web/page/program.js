// The graphs of parser and controls, with where sampled packets go.

import { each, el, packets, percent, rate, say, set, table, whole } from './dom.js';

export const title = 'Program';

const GRAPHS = ['parser', 'ingress', 'egress'];
/** Hits of so many requests are looked at together. */
const WINDOW = 10;

export function make(ask, go) {
  let graphs = null;
  let shown = 'parser';
  let taken = [];
  let pills = [];
  const tabs = el('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Graphs' }, GRAPHS.map((name) => el('button', {
    type: 'button', role: 'tab', id: `tab-${name}`, 'aria-controls': 'graph', onclick: () => select(name),
  }, name[0].toUpperCase() + name.slice(1))));
  const note = el('p', { class: 'note', role: 'status' });
  const fit = el('button', { type: 'button', 'aria-pressed': 'false', title: 'The whole graph in the window, or at its size', onclick: () => toggle() }, 'Fit');
  const canvas = el('div', { class: 'graph', id: 'graph', role: 'tabpanel', tabindex: 0, 'aria-label': 'Graph' });
  const tables = table([['Table', 'head'], ['Entries', 'number'], ['Sampled hits', 'bar-cell'], ['Counted hits', 'number']], 'Tables');
  const made = el('div', {}, el('h1', { class: 'hidden' }, 'Program'),
    el('section', { class: 'panel' }, el('div', { class: 'bar' }, tabs, fit), note, canvas), el('section', { class: 'panel' }, el('h2', {}, 'Tables'), tables.made));

  function toggle() {
    const is = canvas.classList.toggle('fit');
    set(fit, { 'aria-pressed': is });
  }

  function select(name) {
    shown = name;
    draw();
    label();
  }

  function draw() {
    for (const button of tabs.children) {
      const is = button.id === `tab-${shown}`;
      set(button, { 'aria-selected': is });
    }
    canvas.replaceChildren();
    pills = [];
    const graph = graphs?.[shown];
    if (!graph) return;
    if (!graph.nodes.length) {
      canvas.append(el('p', { class: 'none' }, `The program has no ${shown}.`));
      return;
    }
    const drawn = picture(graph, go);
    pills = drawn.pills;
    canvas.append(drawn.made);
  }

  /** The differences of the last requests, on the nodes. */
  function label() {
    const last = taken[taken.length - 1];
    const first = taken[0];
    if (!last || !graphs?.[shown]) return;
    const way = shown === 'egress' ? 'egress' : 'ingress';
    const of = (name) => (last.samples?.[way]?.[name] ?? 0) - (first === last ? 0 : first.samples?.[way]?.[name] ?? 0);
    const sampled = of('sampled');
    // Passes are counted a moment later.
    const passes = Math.max(of('passes'), sampled);
    const seconds = (last.time_ns - (first === last ? last.time_ns : first.time_ns)) / 1e9;
    const speed = seconds > 0 ? passes / seconds : null;
    if (last.paused) say(note, `No hits: ${last.paused}.`);
    else if (!sampled) say(note, `Hits are those of sampled packets. None went through ${way} in the last seconds.`);
    else if (sampled >= passes) say(note, `All ${whole(passes)} packets that went through ${way} in the last seconds were followed.`);
    else say(note, `Of ${packets(speed)} through ${way}, ${whole(sampled)} were followed in the last seconds (1 of ${whole(Math.round(passes / sampled))}): shares are estimates.`);
    const now = last[shown] ?? [];
    const was = first === last ? [] : first[shown] ?? [];
    for (const [n, pill] of pills.entries()) {
      const hits = (now[n] ?? 0) - (was[n] ?? 0);
      pill.show(sampled > 0 && !last.paused ? hits / sampled : null, hits, speed, sampled >= passes);
    }
  }

  async function update(model) {
    try {
      const hits = await ask('hits');
      if (!graphs || graphs.number !== hits.number) {
        graphs = await ask('graph');
        taken = [];
        draw();
      }
      if (hits.number === graphs.number) taken.push(hits);
      if (taken.length > WINDOW) taken.shift();
      label();
      const counted = new Map(model.tables.map((one) => [one.table, one]));
      const last = taken[taken.length - 1]?.tables ?? [];
      const first = new Map((taken.length > 1 ? taken[0].tables ?? [] : []).map((one) => [one.table, one]));
      each(tables.body, last, (one) => one.table, () => tableRow(tables, go), (row, one) => updateTable(row, one, first.get(one.table), counted.get(one.table)));
    } catch (error) {
      say(note, error.message);
    }
  }
  draw();
  return { made, update, step: (by) => select(GRAPHS[(GRAPHS.indexOf(shown) + by + GRAPHS.length) % GRAPHS.length]) };
}

function tableRow(tables, go) {
  const row = tables.row();
  const [name, , share] = row.children;
  name.append(el('a'));
  share.append(el('meter', { min: 0, max: 1 }), el('small'));
  row.go = go;
  return row;
}

function updateTable(row, now, was, counted) {
  const [name, entries, share, exact] = row.children;
  say(name.firstChild, now.table);
  set(name.firstChild, { href: `#/tables/${encodeURIComponent(now.table)}` });
  say(entries, counted ? `${whole(counted.entries)} of ${whole(counted.size)}` : '');
  const hits = now.hits - (was?.hits ?? 0);
  const all = hits + now.misses - (was?.misses ?? 0);
  const [meter, note] = share.children;
  meter.hidden = all === 0;
  meter.value = all ? hits / all : 0;
  say(note, all ? `${percent(hits / all)} of ${whole(all)}` : 'no packet');
  say(exact, counted?.hit_packets === undefined ? 'not counted' : `${rate(counted.hit_rate)} (${whole(counted.hit_packets)})`);
}

/** A graph as it is laid out by the switch. */
function picture(graph, go) {
  const arrow = el('marker', { id: 'arrow', viewBox: '0 0 8 8', refX: 8, refY: 4, markerWidth: 8, markerHeight: 8, orient: 'auto' }, el('path', { d: 'M0 0L8 4L0 8z' }));
  const width = Math.max(graph.width, 200);
  const svg = el('svg', { viewBox: `0 0 ${width} ${graph.height}`, width, height: graph.height, role: 'img', 'aria-label': graph.title }, el('defs', {}, arrow));
  for (const edge of graph.edges) {
    const line = el('path', { class: 'edge', d: curve(edge.points), 'marker-end': 'url(#arrow)' });
    svg.append(line);
    if (!edge.label || edge.points.length < 2) continue;
    const [x1, y1] = edge.points[edge.points.length - 2];
    const [x2, y2] = edge.points[edge.points.length - 1];
    const label = edge.label.length > 40 ? `${edge.label.slice(0, 39)}…` : edge.label;
    svg.append(el('text', { class: 'edge-label', x: (x1 + 3 * x2) / 4, y: (y1 + 3 * y2) / 4 - 2, 'text-anchor': 'middle' }, label));
  }
  const pills = graph.nodes.map((node) => {
    const drawn = nodeOf(node, go);
    svg.append(drawn.made);
    return drawn;
  });
  return { made: svg, pills };
}

function curve(points) {
  if (points.length < 2) return '';
  let path = `M${points[0].join(' ')}`;
  for (let n = 1; n < points.length; n += 1) {
    const [[x1, y1], [x2, y2]] = [points[n - 1], points[n]];
    const middle = (y1 + y2) / 2;
    path += `C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
  }
  return path;
}

function nodeOf(node, go) {
  const [left, top] = [node.x - node.width / 2, node.y - node.height / 2];
  const right = left + node.width;
  const shape = node.kind === 'branch'
    ? el('path', { class: 'shape', d: `M${left + 10} ${top}H${right - 10}L${right} ${node.y}L${right - 10} ${top + node.height}H${left + 10}L${left} ${node.y}z` })
    : el('rect', { class: 'shape', x: left, y: top, width: node.width, height: node.height, rx: node.kind === 'terminal' ? Math.min(16, node.height / 2) : 4 });
  const lines = node.lines.map((line, n) => el('text', { x: node.x, y: top + 5 + n * 16 + 12, 'text-anchor': 'middle' }, line));
  const back = el('rect', { class: 'pill', rx: 8, height: 16, y: top - 13 });
  const text = el('text', { class: 'pill-text', y: top - 1, 'text-anchor': 'end', x: right - 6 });
  const hover = el('title');
  const made = el('g', { class: `node ${node.kind}` }, shape, lines, back, text, hover);
  if (node.table) {
    const open = () => go(`#/tables/${encodeURIComponent(node.table)}`);
    set(made, { role: 'link', tabindex: 0, 'aria-label': `Table ${node.table}`, onclick: open, onkeydown: (event) => event.key === 'Enter' && open() });
  }
  const show = (share, hits, speed, exact) => {
    const is = share !== null;
    for (const part of [back, text]) set(part, { visibility: is ? null : 'hidden' });
    made.classList.toggle('idle', is && hits === 0);
    shape.style.setProperty('--share', is ? Math.min(1, share).toFixed(3) : '0');
    if (!is) return;
    const said = percent(share);
    say(text, said);
    const width = said.length * 6.6 + 12;
    set(back, { width, x: right - width });
    const rates = speed === null ? '' : `, ${exact ? '' : 'about '}${rate(share * speed)}`;
    say(hover, `${whole(hits)} sampled packets${rates}`);
  };
  show(null, 0, null, false);
  return { made, show };
}
