// Queues against their marking curves, priority groups against XOFF.

import { bits, bytes, each, el, panel, percent, rate, say, set, whole } from './dom.js';

export const title = 'Queues';

const WIDTH = 320;
const HEIGHT = 130;
const LEFT = 34;
const BOTTOM = 20;

export function make() {
  const none = el('p', { class: 'none' });
  const cards = el('div', { class: 'queue-cards' });
  const groups = el('ul', { class: 'bars groups' });
  const pools = el('ul', { class: 'bars' });
  const groupsPanel = panel('Priority groups of ingress ports', el('p', { class: 'note' }, 'Bytes that came in by a port and are still inside. Above XOFF a lossless group stops its peer.'), groups);
  const poolsPanel = panel('Buffer pools', pools);
  const made = el('div', {}, el('h1', { class: 'hidden' }, 'Queues'), none, cards, el('div', { class: 'two' }, groupsPanel, poolsPanel));

  function update(model) {
    const has = Boolean(model.now.queueing);
    none.hidden = model.queues.length > 0;
    say(none, has ? 'No packet has been in a queue yet, and no queue has a marking curve.' : 'This switch has no queues: `qos:` in switch.yaml gives it some, with marking and PFC.');
    each(cards, model.queues, (queue) => `${queue.port} ${queue.queue}`, makeCard, updateCard);
    groupsPanel.hidden = model.groups.length === 0;
    each(groups, model.groups, (group) => `${group.port} ${group.group}`, () => el('li', {}, el('code'), el('meter', { min: 0, max: 1 }), el('span'), el('small')), updateGroup);
    const used = model.now.queueing?.pools ?? [];
    poolsPanel.hidden = used.length === 0;
    each(pools, used, (pool) => pool.name, () => el('li', {}, el('code'), el('meter', { min: 0, max: 1 }), el('span'), el('small')), (li, pool) => {
      const [name, meter, now, peak] = li.children;
      const inside = pool.reserved_bytes + pool.shared_bytes + pool.headroom_bytes;
      say(name, pool.name);
      meter.value = pool.peak_bytes ? inside / pool.peak_bytes : 0;
      set(meter, { title: 'of its peak' });
      say(now, bytes(inside));
      say(peak, `peak ${bytes(pool.peak_bytes)}`);
    });
  }
  return { made, update };
}

function updateGroup(li, group) {
  const [name, meter, now, note] = li.children;
  const lossless = group.settings?.lossless;
  say(name, `${group.port} / ${group.group}`);
  meter.value = group.xoff_at_bytes ? group.bytes / group.xoff_at_bytes : 0;
  set(meter, { title: `of ${bytes(group.xoff_at_bytes)}`, high: 0.9, optimum: 0, low: 0.7 });
  say(now, bytes(group.bytes));
  const what = lossless ? `lossless, XOFF at ${bytes(group.xoff_at_bytes)}` : 'lossy';
  say(note, `${group.stopped ? 'stops its peer · ' : ''}${what} · peak ${bytes(group.peak_bytes)}`);
  li.classList.toggle('alarm', group.stopped);
}

function makeCard() {
  const name = el('h3');
  const tags = el('div', { class: 'tags' });
  const curve = el('svg', { class: 'curve', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img' });
  const time = el('svg', { class: 'depth', viewBox: `0 0 ${WIDTH} 56`, preserveAspectRatio: 'none', role: 'img', 'aria-label': 'Depth over the last minutes' });
  const figures = el('dl', { class: 'figures' });
  const card = el('article', { class: 'panel queue-card' }, el('header', {}, name, tags), curve, time, figures);
  card.parts = { name, tags, curve: drawing(curve), time: timeLine(time), figures };
  return card;
}

/** The parts of the picture of a curve, which are moved and not made again. */
function drawing(svg) {
  const part = (tag, kind) => {
    const made = el(tag, { class: kind });
    svg.append(made);
    return made;
  };
  return {
    svg, grid: part('path', 'grid'), fills: part('g', 'fills'), peak: part('line', 'peak'), depth: part('line', 'now'), dot: part('circle', 'now'), axis: part('g', 'axis'),
  };
}

const x = (value, most) => LEFT + (value / most) * (WIDTH - LEFT - 8);
const y = (share) => HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - 10);

/** Probability of a mark at a depth, of a curve. */
export function chance(curve, depth) {
  if (depth <= curve.kmin_bytes) return 0;
  if (depth > curve.kmax_bytes) return 1;
  return (curve.pmax_ppm / 1e6) * ((depth - curve.kmin_bytes) / Math.max(curve.kmax_bytes - curve.kmin_bytes, 1));
}

function updateCard(card, queue) {
  const { name, tags, curve, time, figures } = card.parts;
  const curves = queue.settings?.curves ?? [];
  say(name, `Port ${queue.port} · queue ${queue.queue}`);
  const said = [];
  if (queue.settings?.lossless) said.push(['lossless', 'good']);
  if (queue.paused) said.push(['paused by its peer', 'warn']);
  if (queue.storms) said.push([`${queue.storms} pause storms`, 'bad']);
  each(tags, said, ([text]) => text, ([text, kind]) => el('span', { class: `tag ${kind}` }, text), () => {});
  curve.svg.toggleAttribute('hidden', curves.length === 0);
  if (curves.length) drawCurve(curve, queue, curves);
  time.draw(queue.history, curves[0]);
  const share = queue.eligible > 0 ? ` (${percent(Math.min(1, queue.marked / queue.eligible))})` : '';
  const totals = queue.totals;
  const shown = [
    ['Waiting', `${bytes(queue.waiting_bytes)} in ${whole(queue.waiting)} packets`], ['Peak', bytes(queue.peak_bytes)],
    ['Sent', `${rate(queue.packets)}, ${bits(queue.bits)}`], ['Marked', rate(queue.marked) + share],
    ['Dropped', totals ? `${rate(queue.dropped)} (${whole(totals.dropped + totals.refused + totals.wred_dropped)})` : '0/s'],
    ['Rate', queue.settings?.rate_bps ? bits(queue.settings.rate_bps) : 'none'],
  ];
  for (const one of curves) shown.push([`Curve${curves.length > 1 ? ` (${one.color})` : ''}`, `Kmin ${bytes(one.kmin_bytes)}, Kmax ${bytes(one.kmax_bytes)}, Pmax ${percent(one.pmax_ppm / 1e6)}`]);
  each(figures, shown, ([key]) => key, () => el('div', {}, el('dt'), el('dd')), (row, [key, value]) => {
    say(row.children[0], key);
    say(row.children[1], value);
  });
}

function drawCurve(parts, queue, curves) {
  const most = Math.max(...curves.map((one) => one.kmax_bytes * 1.25), queue.waiting_bytes * 1.05, 1);
  const chances = curves.map((one) => chance(one, queue.waiting_bytes));
  set(parts.svg, { 'aria-label': `Chance of a mark by depth; at ${bytes(queue.waiting_bytes)} it is ${percent(Math.max(...chances))}` });
  set(parts.grid, { d: `M${LEFT} ${y(0)}H${WIDTH - 8}M${LEFT} ${y(1)}H${WIDTH - 8}M${LEFT} ${y(0)}V${y(1)}` });
  each(parts.fills, curves, (one) => one.color, (one) => el('path', { class: one.color }), (path, one) => {
    const points = [[0, 0], [one.kmin_bytes, 0], [one.kmax_bytes, one.pmax_ppm / 1e6], [one.kmax_bytes, 1], [most, 1]];
    set(path, { d: `M${points.map(([depth, share]) => `${x(depth, most)} ${y(share)}`).join('L')}` });
  });
  const at = x(queue.waiting_bytes, most);
  set(parts.depth, { x1: at, x2: at, y1: y(0), y2: y(1) });
  set(parts.dot, { cx: at, cy: y(Math.max(...chances)), r: 4.5 });
  const peak = x(Math.min(queue.peak_bytes, most), most);
  set(parts.peak, { x1: peak, x2: peak, y1: y(0), y2: y(1) });
  const marks = [['p0', LEFT - 4, y(0) + 3, '0 %', 'end'], ['p1', LEFT - 4, y(1) + 4, '100 %', 'end']];
  const first = curves[0];
  marks.push(['kmin', x(first.kmin_bytes, most), HEIGHT - 6, `Kmin ${bytes(first.kmin_bytes)}`, first.kmin_bytes / most < 0.15 ? 'start' : 'middle']);
  if ((first.kmax_bytes - first.kmin_bytes) / most > 0.3) marks.push(['kmax', x(first.kmax_bytes, most), HEIGHT - 6, `Kmax ${bytes(first.kmax_bytes)}`, 'middle']);
  each(parts.axis, marks, ([key]) => key, () => el('text'), (text, [, left, top, label, anchor]) => {
    set(text, { x: left, y: top, 'text-anchor': anchor });
    say(text, label);
  });
}

/** Depth over time, with the thresholds of the first curve. */
function timeLine(svg) {
  const area = el('path', { class: 'spark-area' });
  const line = el('path', { class: 'spark-line' });
  const bounds = el('path', { class: 'bounds' });
  svg.append(area, line, bounds);
  const draw = (values, curve) => {
    const top = Math.max(...values, curve ? curve.kmin_bytes * 1.2 : 0, 1);
    const step = WIDTH / Math.max(values.length - 1, 1);
    const up = (value) => 54 - (value / top) * 50;
    const path = values.length > 1 ? `M${values.map((value, n) => `${(n * step).toFixed(1)} ${up(value).toFixed(1)}`).join('L')}` : '';
    set(line, { d: path });
    set(area, { d: path && `${path}L${WIDTH} 56L0 56Z` });
    const shown = curve ? [curve.kmin_bytes, curve.kmax_bytes].filter((value) => value <= top) : [];
    set(bounds, { d: shown.map((value) => `M0 ${up(value).toFixed(1)}H${WIDTH}`).join('') });
  };
  return { draw };
}
