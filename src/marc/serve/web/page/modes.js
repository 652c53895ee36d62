// Who answers: shown, and changed after a confirmation.

import { addressOf, ask, complain } from "./api.js";
import { make, percent, write } from "./elements.js";

export const MEANS = {
  off: "the base answers; the memory neither learns nor is judged",
  shadow: "the base answers; the memory learns beside it and is judged",
  canary: "the memory answers a fraction, the base the rest; both are judged on everything",
  live: "the memory answers everything; it falls back to shadow when the judge says that it harms",
};

export function modesOf(memory, at, signal, changed) {
  let mode = null, asked = null, judgement = null, forbidden = false;
  const dialog = at.switch, form = dialog.querySelector("form");
  const buttons = Object.fromEntries(Object.keys(MEANS).map((name) => [name, make("button", { type: "button", onclick: () => confirm(name) }, name)]));
  at.modes.append(...Object.values(buttons));

  function confirm(to) {
    if (to === mode && to !== "canary") return;
    asked = { to, expect: mode };
    const harms = judgement?.verdict === "harms" && ["canary", "live"].includes(to);
    write(at["switch-title"], `From ${mode} to ${to}?`);
    write(at["switch-means"], `From the next step on ${MEANS[to]}.`);
    write(at["switch-judge"], judgement ? `The judge now: “${judgement.sentence}”.` : "The judge has not answered yet.");
    at["switch-fraction"].hidden = to !== "canary";
    at["switch-anyway"].hidden = !harms;
    form.anyway.checked = false;
    write(at["switch-yes"], `Switch to ${to}`);
    dialog.returnValue = "";
    dialog.showModal();
  }

  dialog.addEventListener("close", async () => {
    if (dialog.returnValue !== "yes") return;
    const body = { ...asked };
    if (asked.to === "canary") body.fraction = Number(form.fraction.value);
    if (form.anyway.checked) body.anyway = true;
    try {
      await ask(`${addressOf(memory)}/mode`, { method: "POST", body, signal });
    } catch (error) {
      forbidden ||= error.status === 403;
      complain(error);
    }
    changed();
  });

  return {
    set(now, fraction) {
      mode = now;
      for (const [name, button] of Object.entries(buttons)) {
        button.disabled = forbidden;
        button.setAttribute("aria-pressed", String(name === now));
      }
      const means = now === "canary" && fraction ? MEANS.canary.replace("a fraction", percent(fraction)) : MEANS[now];
      write(at["mode-means"], `Now ${means}.${forbidden ? " The key in use may not change it." : ""}`);
    },
    judge(now) { judgement = now; },
  };
}
