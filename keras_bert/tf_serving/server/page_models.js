// ---- The list of models, which is read again and again. What was chosen and written stays. `page.py` puts
// this into the page.
const listed = new Map();  // name -> the option in the list
let isReachable = true;

async function refreshModels() {
  let models, versions;
  try {
    ({models, versions} = await fetched("/models"));
  } catch (error) {
    if (isReachable) say(`${error.message} The page will try again.`);
    isReachable = false;
    return;
  }
  if (!isReachable) say("The server answers again.");
  isReachable = true;
  const news = [];
  for (const name of listed.keys()) {
    if (models.includes(name)) continue;
    listed.get(name).remove();
    listed.delete(name);
    news.push(`${name} is no longer served.`);
  }
  const isFirstLook = !listed.size && !model;
  models.forEach((name, place) => {
    if (!listed.has(name)) {
      const option = element("option", {value: name});
      listed.set(name, option);
      byId("model").insertBefore(option, byId("model").options[place] ?? null);
      if (!isFirstLook) news.push(`${name} is in the list of models now.`);
    }
    const text = versions[name].length ? name : `${name} (not loaded)`;
    if (listed.get(name).textContent !== text) listed.get(name).textContent = text;
  });
  if (news.length) say(news.join(" "));
  if (!models.length) {
    if (isFirstLook) say("The server serves no model yet.");
  } else if (!model || !listed.has(model.name)) {
    const first = models.find(name => versions[name].length);
    if (first === undefined) return;
    byId("model").value = first;
    await guarded(chooseModel)(first);
    if (news.length) say(news.join(" "));
  }
}

async function keepRefreshing() {
  if (!document.hidden) await refreshModels();
  setTimeout(keepRefreshing, 1000 * SECONDS_BETWEEN_LOOKS);
}

keepRefreshing();
