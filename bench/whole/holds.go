package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"
)

const expired = `name: expired
isolation: none
map:
  input: seq 1 500
  max_parallel: 8
  agent_template:
    - http: @URL@/${item}
error_policy:
  retry: {attempts: 3, initial_delay: 500ms}
`

const sameError = "  same_error: {probe: {initial_delay: 100ms, backoff: fixed}}\n"

// expiredKey: 500 items, of which each fails of a key that has expired.
func expiredKey(st *stage) (rows []row, err error) {
	if err = st.write("plain.yml", expired); err == nil {
		err = st.write("held.yml", expired+sameError)
	}
	if err != nil {
		return nil, err
	}
	st.server.set(0, func(time.Duration) bool { return true })
	if _, _, err := st.run("run", "--quiet", "plain.yml"); err != nil {
		return nil, err
	}
	_, _, without := st.server.counts()
	rows = append(rows, exactly("attempts without same_error", without, 1500))

	// Somebody mends the cause while the run is held, and does not touch the run.
	st.server.set(0, func(at time.Duration) bool { return at < 3*time.Second })
	status, _, err := st.run("run", "--quiet", "held.yml")
	if err != nil {
		return nil, err
	}
	probes, err := st.count("hold_probe")
	if err != nil {
		return nil, err
	}
	good, twice, failed := st.server.counts()
	holds, err := st.count("hold_started")
	if err != nil {
		return nil, err
	}
	letters, err := st.count("item_finished")
	if err != nil {
		return nil, err
	}
	_, text, err := st.run("dlq", "list", "last", "--json")
	rows = append(rows,
		atMost("failed attempts with it: 10 + 8 at once + probes", failed, 10+8+probes),
		exactly("items that succeed once the key is there", good, 500),
		exactly("items done twice", twice, 0),
		exactly("ends of items", letters, 500),
		exactly("dead letters", strings.Count(text, `"class"`), 0),
		exactly("holds", holds, 1),
		exactly("exit status", status, 0))
	return rows, err
}

// causes: what holds a map, and what does not.
func causes(st *stage) (rows []row, err error) {
	const file = `name: causes
isolation: none
map:
  input: seq 1 500
  max_parallel: 4
  agent_template:
    - shell: %s
error_policy:
  same_error: {action: stop}
`
	for _, c := range []struct {
		what, command string
		holds         int
		says          string
	}{
		{"holds where 40 % fail with one message", `'if [ $((${item} % 5)) -lt 2 ]; then echo "the disk is full" >&2; exit 1; fi'`, 0, ""},
		{"holds where each message has a number of its own", `'echo "item ${item}: no such customer" >&2; exit 1'`, 1, ""},
		{"holds where nothing says why", `exit 1`, 0, "it names no cause"},
	} {
		if err := st.write("causes.yml", fmt.Sprintf(file, c.command)); err != nil {
			return nil, err
		}
		_, text, err := st.run("run", "causes.yml", "--progress", "plain")
		if err != nil {
			return nil, err
		}
		n, err := st.count("hold_started,hold_ended")
		if err != nil {
			return nil, err
		}
		rows = append(rows, exactly(c.what, min(n, 1), c.holds))
		if c.says != "" {
			said := 0
			if strings.Contains(text, c.says) {
				said = 1
			}
			rows = append(rows, exactly("and the end of the run says so", said, 1))
		}
	}
	return rows, nil
}

// outage: an outage of 4 s in the middle of a run of 6 s.
func outage(st *stage) (rows []row, err error) {
	const probe = 500 * time.Millisecond
	err = st.write("outage.yml", `name: outage
isolation: none
map:
  input: seq 1 600
  max_parallel: 10
  agent_template:
    - http: @URL@/${item}
error_policy:
  retry: {attempts: 3, initial_delay: 100ms}
  same_error: {probe: {initial_delay: 500ms, backoff: fixed}}
`)
	if err != nil {
		return nil, err
	}
	st.server.set(100*time.Millisecond, nil)
	began := time.Now()
	if _, _, err := st.run("run", "--quiet", "outage.yml"); err != nil {
		return nil, err
	}
	undisturbed := time.Since(began)
	st.server.set(100*time.Millisecond, func(at time.Duration) bool { return at > 2*time.Second && at < 6*time.Second })
	began = time.Now()
	status, _, err := st.run("run", "--quiet", "outage.yml")
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	holds, err := st.count("hold_started")
	good, _, _ := st.server.counts()
	return []row{
		exactly("holds", holds, 1),
		exactly("items done", good, 600),
		exactly("exit status", status, 0),
		// The three probes that end the hold run alone.
		within("time beyond that of a run without an outage, and the outage", took-undisturbed-4*time.Second, probe+3*100*time.Millisecond),
	}, err
}

// killedWhileHeld: a run that is killed again and again while it is held.
func killedWhileHeld(st *stage) (rows []row, err error) {
	err = st.write("held.yml", strings.Replace(expired, "seq 1 500", "seq 1 100", 1)+"  max_recoveries: 100000\n"+sameError)
	if err != nil {
		return nil, err
	}
	st.server.set(time.Millisecond, func(time.Duration) bool { return true })
	args := []string{"run", "--quiet", "held.yml"}
	held := 0
	for i := 0; i < st.kills; i++ {
		c := st.command(args...)
		if err := c.Start(); err != nil {
			return nil, err
		}
		wait := 20 + rand.N(400)
		if i == 0 {
			wait = 700
		}
		time.Sleep(time.Duration(wait) * time.Millisecond)
		if err := c.Process.Signal(syscall.SIGKILL); err != nil {
			return nil, fmt.Errorf("the run has ended by itself: %w", err)
		}
		_ = c.Wait() // of a killed process
		args = []string{"resume", "--quiet", "last"}
		if _, text, err := st.run("show", "last"); err != nil {
			return nil, err
		} else if strings.Contains(text, "is held") {
			held++
		}
	}
	st.server.set(0, nil)
	status, _, err := st.run(args...)
	if err != nil {
		return nil, err
	}
	good, twice, _ := st.server.counts()
	holds, err := st.count("hold_started")
	return []row{
		exactly("kills after which show says that it is held", held, st.kills),
		exactly("holds in all", holds, 1),
		exactly("items that succeed once the key is there", good, 100),
		exactly("items done twice", twice, 0),
		exactly("exit status", status, 0),
	}, err
}
