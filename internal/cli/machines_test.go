package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/web"
)

// standIn puts a program on PATH that is bide-temporal, and removes what names a server.
func standIn(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bide-temporal"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	withoutTemporal(t)
	return dir
}

// withoutTemporal removes what names a server.
func withoutTemporal(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "TEMPORAL_") {
			t.Setenv(name, "")
		}
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// manyMachines makes the copy of a run that other machines continue with.
func manyMachines(t *testing.T, home *journal.Store, name string) string {
	t.Helper()
	return manyMachinesAt(t, home, name, time.Time{})
}

// manyMachinesAt is manyMachines of a run that began at a time; the zero time: now.
func manyMachinesAt(t *testing.T, home *journal.Store, name string, at time.Time) string {
	t.Helper()
	shared, err := cluster.OpenStore("dir:" + t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j, err := home.Create(journal.Header{Name: name, Kind: "mapreduce", Path: "/" + name + ".yml"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []event.Event{{Type: event.RunStarted, Time: at}, {Type: event.ItemsReady, Total: 4, Time: at}} {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{journal.GoesOn: "", journal.Elsewhere: fmt.Sprintf(`{"store": %q, "on": "temporal"}`, shared)} {
		if err := os.WriteFile(filepath.Join(j.Dir(), file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return j.Run()
}

// dashed is a dashboard as bide ui serves it, until the test ends.
func dashed(t *testing.T, st *journal.Store) *visitor {
	t.Helper()
	s, err := (&streams{out: t.Output(), err: t.Output()}).dashboard(web.Options{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	return visit(t, s)
}

var aBit = regexp.MustCompile(`\b\d+s ago`)

// TestMachinesPage: the page says what cluster status says, of a real program that answers.
func TestMachinesPage(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	t.Setenv("BIDE_HOME", home)
	st, err := journal.OpenStore(home)
	if err != nil {
		t.Fatal(err)
	}
	state := fmt.Sprintf(`{"address": "t.example.org:7233", "namespace": "night", "protocol": 4,
  "workers": [{"name": "<b>one</b>, process 7", "slots": 8, "heard": %q}, {"name": "two, process 9", "slots": 1, "heard": %[1]q}], "slots": 9,
  "waiting": 12, "for": 34000000000, "runs": [
  {"run": "01KB0000000000000000AAAAAA", "since": "2026-11-26T01:02:03Z", "leases": 1, "trouble": "no worker takes work of protocol 4 (the queue bide.p4): start bide worker there, or one of this version"},
  {"run": "01KB0000000000000000BBBBBB", "since": "2026-11-26T01:02:03Z", "leases": 3}]}`, time.Now().UTC().Format(time.RFC3339))
	dir := standIn(t, `echo "$*" >> "${0%/*}/asked"; cat "${0%/*}/state"`)
	if err := os.WriteFile(filepath.Join(dir, "state"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEMPORAL_ADDRESS", "t.example.org:7233")
	v := dashed(t, st)
	body := v.until("/machines", "t.example.org")
	since := time.Date(2026, 11, 26, 1, 2, 3, 0, time.UTC).Local().Format(time.DateTime)
	got := aBit.ReplaceAllString(regexp.MustCompile(`As of .*?\.`).ReplaceAllString(v.text(body), "As of NOW."), "1s ago")
	want := `Machines
Temporal at t.example.org:7233, namespace night, protocol 4. As of NOW.
2 workers, 9 slots
Worker Slots Heard of
<b>one</b>, process 7 8 1s ago
two, process 9 1 1s ago
Waiting
12 leases wait for a slot, for up to 34s.
2 runs in progress
Run Since What it does
AAAAAA ` + since + ` held up: no worker takes work of protocol 4 (the queue bide.p4): start bide worker there, or one of this version
BBBBBB ` + since + ` 3 open leases`
	if got != want {
		t.Errorf("the page says\n%s\nwant\n%s", got, want)
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil || string(asked) != "cluster\n" {
		t.Errorf("the program was asked %q, %v", asked, err)
	}
}

// TestMachinesThatCannotBeAsked: the page says in one sentence what is wrong and what to do, as
// the command says it: of a program that fails, of one that says something else, of none.
func TestMachinesThatCannotBeAsked(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"fails", "echo 'bide: no Temporal server at t.example.org:7233: refused; TEMPORAL_ADDRESS names another, and `bide cluster dev` starts one' >&2; exit 1",
			"no Temporal server at t.example.org:7233: refused; TEMPORAL_ADDRESS names another, and bide cluster dev starts one."},
		{"another version", "echo usage", `bide-temporal says "usage": is it of the same version as bide?`},
		{"missing", "", "the program bide-temporal is needed for Temporal, and for stores s3: and postgres:, and is neither beside bide nor on PATH: the package bide-temporal of the release has it, and make bide-temporal in bide's sources builds it."},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			t.Setenv("BIDE_HOME", home)
			st, err := journal.OpenStore(home)
			if err != nil {
				t.Fatal(err)
			}
			standIn(t, c.script)
			if c.script == "" {
				t.Setenv("PATH", t.TempDir())
			}
			t.Setenv("TEMPORAL_PROFILE", "night")
			v := dashed(t, st)
			if got := v.text(v.until("/machines", `role="alert"`)); got != "Machines\nTemporal cannot be asked: "+c.want {
				t.Errorf("the page says\n%s\nwant\n%s", got, c.want)
			}
			var errw strings.Builder
			Main([]string{"cluster", "status"}, strings.NewReader(""), &errw, &errw)
			if !strings.Contains(strings.ReplaceAll(strings.Join(strings.Fields(errw.String()), " "), "`", ""), strings.TrimSuffix(c.want, ".")) {
				t.Errorf("the command says %q", errw.String())
			}
		})
	}
}

// TestTemporalThatHangs: who no longer waits for bide-temporal has ended it and all that it
// began, also what holds its output open.
func TestTemporalThatHangs(t *testing.T) {
	dir := standIn(t, `sleep 600 & echo $! > "${0%/*}/part"; mv "${0%/*}/part" "${0%/*}/begun"; wait`)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := temporal(ctx, nil, "cluster")
		ended <- err
	}()
	for _, err := os.Stat(filepath.Join(dir, "begun")); err != nil; _, err = os.Stat(filepath.Join(dir, "begun")) {
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it was ended without an error")
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for what bide-temporal has begun")
	}
}

// TestNoServerNoPage: who has nothing to do with Temporal sees nothing of it, and no program is
// started, whatever page is looked at; each thing that names a server brings the link.
func TestNoServerNoPage(t *testing.T) {
	for _, c := range []struct {
		name  string
		setUp func(t *testing.T, st *journal.Store)
		link  bool
	}{
		{"nothing", func(*testing.T, *journal.Store) {}, false},
		{"an address", func(t *testing.T, _ *journal.Store) { t.Setenv("TEMPORAL_ADDRESS", "t.example.org:7233") }, true},
		{"an empty address", func(t *testing.T, _ *journal.Store) { t.Setenv("TEMPORAL_ADDRESS", "") }, false},
		{"the development server", func(t *testing.T, st *journal.Store) { touch(t, filepath.Join(st.Dir, "temporal.db")) }, true},
		{"Temporal's file", func(t *testing.T, _ *journal.Store) {
			dir, err := os.UserConfigDir()
			if err != nil {
				t.Fatal(err)
			}
			touch(t, filepath.Join(dir, "temporalio", "temporal.toml"))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			t.Setenv("BIDE_HOME", home)
			st, err := journal.OpenStore(home)
			if err != nil {
				t.Fatal(err)
			}
			j, err := st.Create(journal.Header{Name: "usual", Kind: "workflow"})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(j.Append(event.Event{Type: event.RunStarted}), j.Close()); err != nil {
				t.Fatal(err)
			}
			dir := standIn(t, `echo "$*" >> "${0%/*}/asked"; exit 1`)
			c.setUp(t, st)
			v := dashed(t, st)
			for _, path := range []string{"/", "/compare", "/runs/" + j.Run()} {
				if got := strings.Contains(v.page(path), `href="/machines"`); got != c.link {
					t.Errorf("%s has a link: %t", path, got)
				}
			}
			if !c.link {
				if body := v.page("/machines"); !strings.Contains(body, "nothing names a Temporal server") {
					t.Errorf("the page without a link says\n%s", body)
				}
			}
			if asked, err := os.ReadFile(filepath.Join(dir, "asked")); err == nil {
				t.Errorf("somebody asked for nothing, and bide-temporal was started: %s", asked)
			}
		})
	}
}

// TestHeldUpOnManyMachines: the list of runs and the page of the run say what holds up a run on
// many machines, in the words of status and show; the page also that the server does not have
// the run in progress any more.
func TestHeldUpOnManyMachines(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	t.Setenv("BIDE_HOME", home)
	st, err := journal.OpenStore(home)
	if err != nil {
		t.Fatal(err)
	}
	stuck, fine, begins := manyMachines(t, st, "stuck"), manyMachines(t, st, "fine"), manyMachines(t, st, "begins")
	gone := manyMachinesAt(t, st, "gone", time.Now().Add(-time.Hour))
	const trouble = "the store cannot be written: no space left"
	standIn(t, fmt.Sprintf(`case $1 in
cluster) echo '{"address": "a", "namespace": "night", "runs": [{"run": "%s", "trouble": "%s"}, {"run": "%s", "leases": 1}]}';;
status) echo '[{"run": "%[1]s", "word": "running", "trouble": "%[2]s"}, {"run": "%[3]s", "word": "running"}]';;
esac`, stuck, trouble, fine))
	v := dashed(t, st)
	for path, want := range map[string]string{"/": "1 run is held up", "/runs/" + stuck: "held up: " + trouble, "/runs/" + gone: "not in progress on the Temporal server a (namespace night)"} {
		if body := v.until(path, want); path != "/runs/"+gone && !strings.Contains(body, trouble) {
			t.Errorf("%s does not say what holds it up:\n%s", path, v.text(body))
		}
	}
	for _, run := range []string{fine, begins} {
		if body := v.page("/runs/" + run); strings.Contains(body, "held up") || strings.Contains(body, "not in progress") {
			t.Errorf("the other run is held up as well:\n%s", v.text(body))
		}
	}
	_, section, _ := strings.Cut(v.page("/"), `<section class="todos"`)
	if section, _, _ = strings.Cut(section, "</section>"); strings.Contains(section, "fine") || !strings.Contains(section, `href="/runs/`+stuck+`"`) {
		t.Errorf("the section says\n%s", section)
	}
	if text := strings.Join(strings.Fields(ran(t, "status")), " "); !strings.Contains(text, "held up: "+trouble) {
		t.Errorf("status does not say it:\n%s", text)
	}
	if !strings.Contains(v.page("/"), `href="/machines"`) {
		t.Error("a run on many machines, and no link to them")
	}
}
