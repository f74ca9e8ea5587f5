// What happens now: rates in all, ports, who pauses whom, drops, the entries that most packets meet.

import { bits, bytes, each, el, packets, panel, percent, rate, say, set, spark, table, whole } from './dom.js';

export const title = 'Overview';

const TILES = [
  ['rx_bits', 'Received', (t) => bits(t.rx_bits), (t) => packets(t.rx_packets), ''],
  ['tx_bits', 'Sent', (t) => bits(t.tx_bits), (t) => packets(t.tx_packets), ''],
  ['dropped', 'Dropped', (t) => rate(t.dropped), (t, m) => `${whole(m.drops.reduce((all, one) => all + one.count, 0))} in all`, 'bad'],
  ['waiting', 'In queues', (t) => bytes(t.waiting), (t, m) => `${whole(m.now.total.queued)} packets inside`, ''],
  ['marked', 'Marked', (t) => rate(t.marked), () => 'congestion experienced', 'warn'],
  ['pauses', 'Pauses', (t) => whole(t.pauses), () => 'in force, both ways', 'warn'],
];

export function make() {
  const tiles = TILES.map(([key, name, , , kind]) => {
    const value = el('b', {}, '–');
    const note = el('small', {}, ' ');
    const line = spark();
    return { key, value, note, line, made: el('div', { class: `tile ${kind}` }, el('span', {}, name), value, note, line.made) };
  });
  const ports = table([['Port', 'head'], ['Link', ''], ['Received', 'number'], ['Sent', 'number'], ['Load', 'bar-cell'], ['Dropped', 'number'], ['Over time: received, sent', 'spark-cell']], 'Ports');
  const pauses = el('ul', { class: 'pauses' });
  const frames = table([['Port', 'head'], ['Priority', ''], ['Sent', 'number'], ['Received', 'number'], ['Time paused', 'number']], 'Pause frames');
  const drops = el('ul', { class: 'bars' });
  const entries = table([['Table', 'head'], ['Entry', 'mono'], ['Action', 'mono'], ['Packets', 'number']], 'Busiest entries');
  const nothing = { pauses: el('p', { class: 'none' }, 'Nobody pauses anybody.'), drops: el('p', { class: 'none' }, 'Nothing was dropped.') };
  const entriesPanel = panel('Busiest entries', entries.made);
  const framesBox = el('details', {}, el('summary', {}, 'Pause frames'), frames.made);
  const made = el('div', {}, el('h1', { class: 'hidden' }, 'Overview'), el('div', { class: 'tiles' }, tiles.map((tile) => tile.made)), panel('Ports', ports.made),
    el('div', { class: 'two' }, panel('Who pauses whom', nothing.pauses, pauses, framesBox), panel('Drops by reason', nothing.drops, drops)), entriesPanel);

  function update(model) {
    for (const [n, tile] of tiles.entries()) {
      const [, , value, note] = TILES[n];
      say(tile.value, value(model.total));
      say(tile.note, note(model.total, model));
      tile.line.draw(model.history[tile.key]);
      tile.made.classList.toggle('active', model.total[tile.key] > 0);
    }
    each(ports.body, model.ports, (port) => port.port, portRow(ports), updatePort);
    const news = pauseLines(model);
    nothing.pauses.hidden = news.length > 0;
    each(pauses, news, (line) => line.key, (line) => el('li', { class: line.kind }, el('strong'), el('span')), (li, line) => {
      say(li.children[0], line.who);
      say(li.children[1], line.why);
    });
    framesBox.hidden = model.pauses.length === 0;
    each(frames.body, model.pauses, (one) => `${one.port} ${one.priority}`, frames.row, (row, one) => {
      const cells = row.children;
      say(cells[0], one.port);
      say(cells[1], one.priority ?? 'whole link');
      say(cells[2], `${rate(one.sent)} (${whole(one.totals.sent)})`);
      say(cells[3], `${rate(one.received)} (${whole(one.totals.received)})`);
      say(cells[4], percent(one.share));
    });
    nothing.drops.hidden = model.drops.length > 0;
    const most = Math.max(...model.drops.map((drop) => drop.rate), 1e-9);
    each(drops, model.drops, (drop) => drop.reason, () => el('li', {}, el('code'), el('meter', { min: 0, max: 1 }), el('span'), el('small')), (li, drop) => {
      const [name, meter, speed, all] = li.children;
      say(name, drop.reason);
      meter.value = drop.rate / most;
      set(meter, { title: rate(drop.rate) });
      say(speed, rate(drop.rate));
      say(all, `${whole(drop.count)} in all`);
    });
    entriesPanel.hidden = model.entries.length === 0;
    each(entries.body, model.entries.slice(0, 10), (entry) => entry.key, entries.row, (row, entry) => {
      const cells = row.children;
      say(cells[0], entry.table);
      say(cells[1], Object.entries(entry.match).map(([key, value]) => `${key}=${value}`).join(' ') || 'any');
      say(cells[2], entry.action);
      say(cells[3], `${rate(entry.rate)} (${whole(entry.packets)})`);
    });
  }
  return { made, update };
}

const portRow = (ports) => () => {
  const row = ports.row();
  const cells = row.children;
  cells[0].append(el('strong'), el('small'));
  cells[1].append(el('span', { class: 'link' }));
  for (const at of [2, 3]) cells[at].append(el('span'), el('small'));
  cells[4].append(el('meter', { min: 0, max: 1, low: 0.5, high: 0.9, optimum: 0 }), el('small'));
  row.lines = [spark(), spark()];
  row.lines[0].made.classList.add('first');
  cells[6].append(row.lines[0].made, row.lines[1].made);
  return row;
};

function updatePort(row, port) {
  const cells = row.children;
  say(cells[0].children[0], port.port);
  say(cells[0].children[1], port.name);
  const link = cells[1].firstChild;
  say(link, port.shut ? 'shut' : port.link);
  set(link, { class: `link ${port.link === 'up' ? 'good' : 'bad'}` });
  for (const [at, way] of [[2, 'rx'], [3, 'tx']]) {
    say(cells[at].children[0], bits(port[`${way}_bits`]));
    say(cells[at].children[1], packets(port[`${way}_packets`]));
  }
  const [meter, note] = cells[4].children;
  const load = port.rate_bps ? Math.max(port.rx_bits, port.tx_bits) / port.rate_bps : null;
  meter.hidden = load === null;
  meter.value = load ?? 0;
  say(note, load === null ? 'no rate given' : `${percent(load)} of ${bits(port.rate_bps)}`);
  say(cells[5], rate(port.dropped));
  cells[5].classList.toggle('alarm', port.dropped > 0);
  const most = Math.max(...port.rx_history, ...port.tx_history);
  row.lines[0].draw(port.rx_history, most);
  row.lines[1].draw(port.tx_history, most);
}

/** Pauses in force, in words: whom we stop, who stops us, and which of the first is because of which of the second. */
function pauseLines(model) {
  const lines = [];
  for (const queue of model.queues.filter((one) => one.paused)) {
    lines.push({ key: `q${queue.port} ${queue.queue}`, kind: 'stopped', who: `The peer of port ${queue.port} pauses us`, why: `Queue ${queue.queue} waits with ${bytes(queue.waiting_bytes)}.` });
  }
  for (const group of model.groups.filter((one) => one.stopped)) {
    lines.push({
      key: `g${group.port} ${group.group}`, kind: 'stops', who: `Port ${group.port} pauses its peer`,
      why: `Priority group ${group.group} holds ${bytes(group.bytes)}; XOFF is at ${bytes(group.xoff_at_bytes)}.`,
    });
  }
  for (const wait of model.waits) {
    lines.push({
      key: `w${wait.port} ${wait.waits_for} ${wait.queue}`, kind: 'because', who: `Port ${wait.port} waits for port ${wait.waits_for}`,
      why: `Its peer is stopped (${wait.priorities ? `priority ${wait.priorities.join(', ')}` : 'the whole link'}) because queue ${wait.queue} of port ${wait.waits_for} is paused with ${bytes(wait.bytes)} of it.`,
    });
  }
  return lines;
}
