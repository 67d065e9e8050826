// The extension starts "bide lsp" and speaks with it; all that it shows is the
// server's.
"use strict";

const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const settings = workspace.getConfiguration("bide");
  const modules = settings.get("modules");
  client = new LanguageClient(
    "bide",
    "bide",
    { command: settings.get("path"), args: modules ? ["lsp", "--modules", modules] : ["lsp"] },
    { documentSelector: [{ language: "cst" }, { language: "yaml" }] },
  );
  return client.start();
};

exports.deactivate = () => client && client.stop();
