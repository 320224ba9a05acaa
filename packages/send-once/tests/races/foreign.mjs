// A foreign writer on a JSONL ledger, after the facts of lock_protocol.json; it shares no code with
// the library. Races for keys as racer.py does, or with "resolve" in its argument settles one key.
import fs from "node:fs";
import os from "node:os";
import { randomBytes } from "node:crypto";

const spec = JSON.parse(process.argv[2]);
const ledger = spec.address, lockPath = ledger + ".lock";
const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
const now = () => new Date().toISOString();

function locked(work) {
  const token = randomBytes(8).toString("hex");
  const body = JSON.stringify({ pid: process.pid, host: os.hostname(), token, at: Date.now() });
  const deadline = Date.now() + 60_000;
  for (let delay = 2; ; delay = Math.min(2 * delay, 50)) {
    try {
      const fd = fs.openSync(lockPath, "wx");
      fs.writeSync(fd, body);
      fs.closeSync(fd);
      break;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    if (Date.now() > deadline) throw new Error("lock_timeout");
    sleep(delay + Math.random() * delay);
  }
  try {
    return work();
  } finally {
    if (JSON.parse(fs.readFileSync(lockPath, "utf8")).token === token) fs.unlinkSync(lockPath);
  }
}

function current(key) {
  let found = null;
  const text = fs.existsSync(ledger) ? fs.readFileSync(ledger, "utf8") : "";
  for (const line of text.split("\n")) {
    let entry = null;
    try { entry = JSON.parse(line); } catch { continue; }
    if (entry !== null && entry.key === key) found = entry;
  }
  return found;
}

function append(entry) {
  const fd = fs.openSync(ledger, "a+");
  const size = fs.fstatSync(fd).size;
  const last = Buffer.alloc(1);
  if (size > 0) fs.readSync(fd, last, 0, 1, size - 1);
  fs.writeSync(fd, (size > 0 && last.toString() !== "\n" ? "\n" : "") + JSON.stringify(entry) + "\n");
  fs.fsyncSync(fd);
  fs.closeSync(fd);
}

const claim = (entry) => locked(() => current(entry.key) === null && (append(entry), true));
const transition = (from, entry) => locked(() => current(entry.key)?.status === from && (append(entry), true));

function once(key, send) {
  const at = now();
  const entry = { key, status: "pending", attempts: 1, claimedAt: at, updatedAt: at, meta: null };
  if (!claim(entry)) return current(key).status === "sent" ? "duplicate" : "unknown";
  const providerId = send();
  transition("pending", { ...entry, status: "sent", updatedAt: now(), sentAt: now(), providerId });
  return "sent";
}

function resolve(key, status) {
  const entry = current(key);
  const resolution = { status, from: entry.status, by: "node", at: now() };
  return transition(entry.status, { ...entry, status, updatedAt: now(), resolution });
}

if (spec.resolve !== undefined) {
  console.log(JSON.stringify({ resolved: resolve(spec.resolve, spec.status) }));
} else {
  const effects = fs.openSync(spec.effects, "a");
  const told = {};
  console.log("ready");
  try { fs.readSync(spec.start_fd, Buffer.alloc(1)); } catch (error) { if (error.code !== "EOF") throw error; }
  const keys = Array.from({ length: spec.keys }, (_, n) => n).sort(() => Math.random() - 0.5);
  for (const n of keys) {
    const word = once(`key ${n}`, () => (fs.writeSync(effects, String(n).padStart(7, "0") + "\n"), `msg_${n}`));
    told[word] = (told[word] ?? 0) + 1;
  }
  console.log(JSON.stringify(told));
}
