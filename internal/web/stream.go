package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/journal"
)

const (
	beat      = 100 * time.Millisecond // changes go out at most so often
	busyBeat  = time.Second            // those of a topic that changes all the time
	listBeat  = time.Second            // and those of the list of runs
	sleepy    = 15 * time.Second       // with nothing to say, a comment keeps the line open
	slow      = 5 * time.Second        // a reader that takes longer to take a message is dropped
	maxTopics = 64
)

// stream sends what changes: the one stream of a browser, for all of its tabs.
// The address says the topics:
//
//	runs        the list of runs
//	run:ID      the timeline of a run: where it is, see run.position
//	map:ID      the cells of a run's map that have changed, and their counts
//
// The id of a message is where each topic stands, so that a reader that was
// dropped, or lost its connection, continues where it was: by Last-Event-ID, or
// by "at" in the address.
func (p *pages) stream(w http.ResponseWriter, r *http.Request) {
	topics := strings.Fields(r.URL.Query().Get("topics"))
	if len(topics) == 0 || len(topics) > maxTopics {
		p.fail(w, r, http.StatusBadRequest, "The stream has no topics, or too many.", "The pages ask for those that they show.")
		return
	}
	at := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("at"))
	t := &subscriber{p: p, w: w, c: http.NewResponseController(w), at: positions(at)}
	paces := map[string]*pace{}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	spoke := time.Time{}
	for {
		said := false
		for _, topic := range topics {
			if paces[topic] == nil {
				paces[topic] = &pace{}
			}
			if time.Now().Before(paces[topic].next) {
				continue
			}
			told, err := t.tell(r, topic)
			if err != nil {
				return // who is gone, or too slow, comes back with Last-Event-ID
			}
			paces[topic].told(topic, told, time.Now())
			said = said || told
		}
		if !said && time.Since(spoke) > sleepy {
			if t.send(":\n\n") != nil {
				return
			}
			said = true
		}
		if said {
			spoke = time.Now()
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.ends.Done():
			return
		case <-tick.C:
		}
	}
}

// pace is how soon a topic has its turn again: what changes after a while is told
// at once, and what changes all the time more seldom, since each message costs the
// browser more than us, perhaps on the machine that does the work.
type pace struct {
	wait time.Duration // since it was told last
	next time.Time
}

// told takes note of a turn.
func (p *pace) told(topic string, something bool, now time.Time) {
	switch {
	case topic == "runs":
		p.wait = listBeat
	case something:
		p.wait = min(max(2*p.wait, beat), busyBeat)
	default:
		p.wait = 0
	}
	p.next = now.Add(p.wait)
}

// subscriber is one reader of the stream.
type subscriber struct {
	p  *pages
	w  http.ResponseWriter
	c  *http.ResponseController
	at map[string]int64 // where each topic stands
}

// update is a message of a topic.
type update struct {
	Topic  string `json:"topic"`
	At     int64  `json:"at"`
	Status string `json:"status,omitempty"`
	Counts []int  `json:"counts,omitempty"` // of a map, by status
	Total  int    `json:"total,omitempty"`
	Cells  string `json:"cells,omitempty"` // changes in base64, see items.changes
}

// deleted is where a run is that is not there any more.
const deleted = -1

// tell sends what is new of a topic, and says whether there was something.
func (t *subscriber) tell(r *http.Request, topic string) (bool, error) {
	m := update{Topic: topic, At: t.at[topic]}
	kind, id, _ := strings.Cut(topic, ":")
	known := false
	switch kind {
	case "runs":
		_, m.At = t.p.list.since(m.At)
		known = m.At != t.at[topic]
	case "run", "map":
		err := t.p.runs.with(id, func(run *run) error {
			return run.look(r.Context(), func() { known = t.tellRun(kind, run, &m) })
		})
		if err != nil && r.Context().Err() != nil {
			return false, err
		}
		if errors.As(err, new(*journal.NotFoundError)) && m.At >= 0 { // told once
			m.At, m.Status, known = deleted, "deleted", true
		}
	}
	if !known {
		return false, nil
	}
	t.at[topic] = m.At
	data, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	return true, t.send(fmt.Sprintf("id: %s\ndata: %s\n\n", t.id(), data))
}

// tellRun fills in a message about a run with copies of what the run says; run.mu
// is held, and the message is written without it.
func (t *subscriber) tellRun(kind string, run *run, m *update) bool {
	after := m.At
	if kind == "map" {
		told, cells := run.tell(after)
		m.At, m.Status, m.Total, m.Counts, m.Cells = told.at, told.status, told.total, told.counts, cells
	} else {
		m.At, m.Status = run.position(), run.line.Status
	}
	return m.At != after
}

// send writes a message, within the time that a reader has for it.
func (t *subscriber) send(message string) error {
	if err := t.c.SetWriteDeadline(time.Now().Add(t.p.patience)); err != nil {
		return err
	}
	if _, err := t.w.Write([]byte(message)); err != nil {
		return err
	}
	return t.c.Flush()
}

// id is where each topic stands, as positions reads it.
func (t *subscriber) id() string {
	var parts []string
	for topic, at := range t.at {
		parts = append(parts, topic+"="+strconv.FormatInt(at, 10))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func positions(id string) map[string]int64 {
	out := map[string]int64{}
	for _, part := range strings.Fields(diag.ClipBytes(id, 8<<10)) {
		topic, n, _ := strings.Cut(part, "=")
		if at, err := strconv.ParseInt(n, 10, 64); err == nil && at >= 0 && len(out) < maxTopics {
			out[topic] = at
		}
	}
	return out
}
