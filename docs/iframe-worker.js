/* Search in a site that is opened from a folder.  Browsers refuse workers there, so the search runs in a hidden frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = (this.inside = frame.contentWindow);
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.loaded = new Promise((done) => {
        const script = inside.document.createElement("script");
        script.src = address;
        script.onload = done;
        inside.document.body.append(script);
      });
    }
    async postMessage(data) {
      await this.loaded;
      this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
