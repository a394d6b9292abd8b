// node-postgres against a Subscriber. Where to connect is in PGHOST and the like. `npm install pg`
import { setTimeout as pause } from "node:timers/promises";
import { createRequire } from "node:module";

// the package of the directory in which this is run
const { Client } = createRequire(`${process.cwd()}/`)("pg");

// A whole transaction: what it decides on is read in it, so that it can be run again.
async function transfer(client, amount) {
  await client.query("begin");
  try {
    const read = await client.query("select balance from account where id = $1", [1]);
    if (read.rows[0].balance < amount) throw new Error("not enough money");
    await client.query("update account set balance = balance - $1 where id = 1", [amount]);
    await client.query("update account set balance = balance + $1 where id = 2", [amount]);
    await client.query("insert into entry (account, amount) values (1, $1)", [-amount]);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}

const client = new Client();
await client.connect();
let done = false;
for (let attempt = 1; attempt <= 10 && !done; attempt++) {
  try {
    await transfer(client, 10);
    done = true;
  } catch (error) {
    if (error.code !== "40001") throw error;
    console.log(`attempt ${attempt}: ${error.code} ${error.detail}`);
    await pause(50 * 2 ** attempt); // until the Subscriber has got what it lacks
  }
}
console.log(done ? "transferred" : "gave up");
await client.end();
process.exitCode = done ? 0 : 1;
