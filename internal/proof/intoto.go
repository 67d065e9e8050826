package proof

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/bide-dev/bide/internal/event"
)

// The types of an attestation: the statement of the in-toto attestation framework, and its
// predicate for the results of tests.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://in-toto.io/attestation/test-result/v0.1"
)

// Statement is an in-toto attestation of what an item has shown.
type Statement struct {
	Type          string     `json:"_type"`
	Subject       []Resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     TestResult `json:"predicate"`
}

// Resource is a ResourceDescriptor.
type Resource struct {
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest"`
}

// TestResult is the predicate of the type test-result.
type TestResult struct {
	Result        string     `json:"result"` // PASSED, WARNED or FAILED
	Configuration []Resource `json:"configuration"`
	PassedTests   []string   `json:"passedTests,omitempty"`
	WarnedTests   []string   `json:"warnedTests,omitempty"`
	FailedTests   []string   `json:"failedTests,omitempty"`
}

// InToto gives an attestation of each item that has evidence. source is the workflow file
// of that name, which says what is checked.
func (p *Proof) InToto(name string, source []byte) []Statement {
	sum := sha256.Sum256(source)
	config := []Resource{{Name: name, Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}}}
	list := []Statement{}
	for _, it := range p.Items {
		if it.Evidence != nil {
			list = append(list, it.statement(config))
		}
	}
	return list
}

func (it *Item) statement(config []Resource) Statement {
	e := it.Evidence
	r := TestResult{Result: "PASSED", Configuration: config}
	for _, c := range e.Checks {
		switch {
		case c.Status == event.Succeeded:
			r.PassedTests = append(r.PassedTests, c.Check)
		case c.RedBase:
			r.WarnedTests = append(r.WarnedTests, c.Check)
		default:
			r.FailedTests = append(r.FailedTests, c.Check)
		}
	}
	switch {
	case len(r.FailedTests)+len(e.Refused) > 0 || it.Class == "evidence":
		r.Result = "FAILED"
	case len(r.WarnedTests) > 0:
		r.Result = "WARNED"
	}
	subject := []Resource{{Name: it.ID, Digest: map[string]string{"gitCommit": e.Commit, "gitTree": e.Tree}}}
	return Statement{statementType, subject, predicateType, r}
}
