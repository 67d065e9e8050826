package engine

import (
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/workflow"
)

// Secrets may be in a workflow's own text. The texts that a run records are
// then without them, and a resume takes the values from the files as they are:
// like those that a provider gives, they are asked for again in each life.

// inPlace is in a recorded text in the place of a secret. Unlike the mask of
// outputs it can be a value in YAML, so that what is recorded can be read.
const inPlace = "<secret>"

// literals masks the secrets that are in the texts of a workflow.
func literals(f *workflow.File) *mask.Masker {
	m, _ := mask.New(workflow.Literals(f)) // those that are too short a run tells of
	return m
}

// hide gives a text as it is recorded.
func hide(m *mask.Masker, text []byte) []byte {
	if !m.Active() {
		return text
	}
	return []byte(m.Replace(string(text), inPlace))
}
