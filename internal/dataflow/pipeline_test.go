package dataflow_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bide-dev/bide/internal/dataflow"
)

// A file whose name does not tell is known by its content.
func TestIsPipeline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]bool{
		"in q: String\nout q\n":                       true,
		"# about\n\n  hits=Search(\"x\")\nout hits\n": true,
		"n=$(cat n)\necho $n\n":                       false,
		"name = \"x\"\n[a]\nb = 1\n":                  false,
		"#!/bin/sh\nin x\nout y\n":                    false,
		"#!/usr/bin/env bide\nx = 1\nout x\n":         true,
		"@example(\"x\")\nin q: String\n":             true,
		"policy p = retry: 3\n":                       true,
		"use stdlib.math\nx = 1":                      true,
		"name: x\ncommands: []\n":                     false,
		"- shell: x=1\n":                              false,
		"mode: mapreduce\n":                           false,
		"{\"commands\": []}":                          false,
		"in: [1]\n":                                   false,
		"":                                            false,
		"# only a comment":                            false,
		"env: {A: b=c}\n":                             false,
	} {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := dataflow.IsPipeline(path); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if !dataflow.IsPipeline("none.cst") || dataflow.IsPipeline("none.yml") || dataflow.IsPipeline(filepath.Join(dir, "none")) {
		t.Error("by the name")
	}
}
