// From two documents of counters to rates, and the last minutes of some of them.

/** Values that a line shows. */
export const KEPT = 120;

const history = new Map();
let before = null;

/** The last values of a name, with a new one. */
function remember(name, value) {
  const values = history.get(name) ?? [];
  values.push(value);
  if (values.length > KEPT) values.shift();
  history.set(name, values);
  return values;
}

export function forget() {
  before = null;
  history.clear();
}

const by = (list, key) => new Map((list ?? []).map((one) => [String(one[key]), one]));
const sum = (pairs) => (pairs ?? []).reduce((all, [, count]) => all + count, 0);

/** What a document says by name, beside the one before it; null for the first one. */
export function compare(now) {
  const old = before;
  before = now;
  if (!old || now.time_ns <= old.time_ns) return null;
  const seconds = (now.time_ns - old.time_ns) / 1e9;
  const per = (one, other, name) => Math.max(0, ((one?.[name] ?? 0) - (other?.[name] ?? 0)) / seconds);
  const model = { seconds, now, ports: [], queues: [], groups: [], pauses: [], drops: [], entries: [], waits: now.waits ?? [] };

  const oldPorts = by(old.ports, 'port');
  const links = by(now.links, 'port');
  const rates = by(now.queueing?.ports, 'port');
  for (const port of now.ports) {
    const was = oldPorts.get(String(port.port));
    const of = (name) => per(port.medium, was?.medium, name);
    const link = links.get(String(port.port));
    const one = {
      port: port.port, name: port.name, link: link?.link ?? 'up', shut: link?.shut ?? false,
      rate_bps: rates.get(String(port.port))?.rate_bps ?? null,
      rx_packets: of('rx_frames'), rx_bits: of('rx_bytes') * 8, tx_packets: of('tx_frames'), tx_bits: of('tx_bytes') * 8,
      dropped: Math.max(0, (sum(port.ledger.dropped) - sum(was?.ledger.dropped)) / seconds),
    };
    one.rx_history = remember(`port ${port.port} rx`, one.rx_bits);
    one.tx_history = remember(`port ${port.port} tx`, one.tx_bits);
    model.ports.push(one);
  }
  queues(model, now, old, per);

  const oldDrops = new Map(old.total.dropped ?? []);
  for (const [reason, count] of now.total.dropped ?? []) {
    model.drops.push({ reason, count, rate: Math.max(0, (count - (oldDrops.get(reason) ?? 0)) / seconds) });
  }
  model.drops.sort((one, other) => other.rate - one.rate || other.count - one.count);

  const name = (table, entry) => `${table.table} ${JSON.stringify(entry.match)} ${entry.priority ?? ''}`;
  const oldEntries = new Map();
  const least = new Map();
  for (const table of old.entry_counters ?? []) {
    for (const entry of table.entries) oldEntries.set(name(table, entry), entry.packets ?? 0);
    // Entries that were not shown had counted no more than the last one.
    if (table.more > 0) least.set(table.table, table.entries.at(-1)?.packets ?? 0);
  }
  for (const table of now.entry_counters ?? []) {
    for (const entry of table.entries) {
      const key = name(table, entry);
      const before = oldEntries.get(key) ?? least.get(table.table) ?? 0;
      const hits = Math.max(0, ((entry.packets ?? 0) - before) / seconds);
      if (hits > 0) model.entries.push({ key, table: table.table, match: entry.match, action: entry.action, rate: hits, packets: entry.packets });
    }
  }
  model.entries.sort((one, other) => other.rate - one.rate);

  const oldTables = by(old.program?.tables, 'table');
  model.tables = (now.program?.tables ?? []).map((table) => ({
    ...table, hit_rate: table.hit_packets === undefined ? null : per(table, oldTables.get(String(table.table)), 'hit_packets'),
  }));

  const all = (list, value) => list.reduce((total, one) => total + value(one), 0);
  model.total = {
    rx_bits: all(model.ports, (port) => port.rx_bits), rx_packets: all(model.ports, (port) => port.rx_packets),
    tx_bits: all(model.ports, (port) => port.tx_bits), tx_packets: all(model.ports, (port) => port.tx_packets),
    dropped: all(model.drops, (drop) => drop.rate), marked: all(model.queues, (queue) => queue.marked),
    waiting: all(model.queues, (queue) => queue.waiting_bytes),
    pauses: all(model.queues, (queue) => (queue.paused ? 1 : 0)) + all(model.groups, (group) => (group.stopped ? 1 : 0)),
  };
  model.history = Object.fromEntries(Object.entries(model.total).map(([key, value]) => [key, remember(`total ${key}`, value)]));
  return model;
}

/** Queues with their curves, priority groups, and pauses by priority. */
function queues(model, now, old, per) {
  const settings = new Map((now.settings ?? []).map((one) => [`${one.port} ${one.queue}`, one]));
  const oldPorts = by(old.queueing?.ports, 'port');
  const seen = new Set();
  for (const port of now.queueing?.ports ?? []) {
    const was = oldPorts.get(String(port.port));
    const oldQueues = by(was?.queues, 'queue');
    const oldPauses = by(was?.pauses, 'priority');
    for (const queue of port.queues) {
      const other = oldQueues.get(String(queue.queue));
      const of = (name) => per(queue, other, name);
      const place = `${port.port} ${queue.queue}`;
      seen.add(place);
      model.queues.push({
        port: port.port, queue: queue.queue, waiting_bytes: queue.waiting_bytes, waiting: queue.waiting, peak_bytes: queue.peak_bytes,
        packets: of('sent') + of('passed'), bits: (of('sent_bytes') + of('passed_bytes')) * 8, marked: of('marked'), eligible: of('eligible'),
        decisions: of('mark_decisions'), dropped: of('dropped') + of('refused') + of('wred_dropped'), paused: queue.paused, storms: queue.storms,
        totals: queue, settings: settings.get(place) ?? null, history: remember(`queue ${place}`, queue.waiting_bytes),
      });
    }
    for (const group of port.groups) model.groups.push({ port: port.port, ...group, settings: settings.get(`${port.port} ${group.group}`) ?? null });
    for (const pause of port.pauses) {
      const other = oldPauses.get(String(pause.priority));
      const of = (name) => per(pause, other, name);
      model.pauses.push({
        port: port.port, priority: pause.priority, sent: of('sent'), received: of('received'), share: Math.min(1, of('paused_ns') / 1e9), totals: pause,
      });
    }
  }
  for (const [place, one] of settings) {
    if (seen.has(place) || !one.curves?.length) continue;
    model.queues.push({
      port: one.port, queue: one.queue, waiting_bytes: 0, waiting: 0, peak_bytes: 0, packets: 0, bits: 0, marked: 0, eligible: 0, decisions: 0,
      dropped: 0, paused: false, storms: 0, totals: null, settings: one, history: remember(`queue ${place}`, 0),
    });
  }
  model.queues.sort((one, other) => one.port - other.port || one.queue - other.queue);
}
