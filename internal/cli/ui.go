package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/web"
	"github.com/spf13/cobra"
)

// uiOptions are the options of ui.
type uiOptions struct {
	*app
	id       string // of the run to show first
	listen   string
	hosts    []string
	readOnly bool
	noOpen   bool
	token    string // the file with the token for readers of metrics
}

func uiCmd(a *app) *cobra.Command {
	o := &uiOptions{app: a}
	cmd := &cobra.Command{
		Use:   "ui [RUN]",
		Short: "Show the runs in a browser",
		Long: `Serves the dashboard on this machine and opens it in a browser: the runs, each with
its timeline, its outputs, its map and its dead letters, live. With RUN, an id or its
beginning, it opens that run. It serves until it is interrupted; runs continue.

The address on the first line of standard output signs one browser in, once; then a
new address is printed. Behind a proxy, name it with --host: requests under other
names are refused. /metrics has metrics of the runs for Prometheus.`,
		Example: `  bide ui
  bide ui 01KAJ3 --no-open
  bide ui --listen 127.0.0.1:8080 --read-only
  bide ui --listen 127.0.0.1:8080 --host bide.example.org --no-open`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = first(args)
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:0", "address to serve on, HOST:PORT; port 0 is a free one")
	cmd.Flags().StringArrayVar(&o.hosts, "host", nil, "name of a proxy in front, NAME or NAME:PORT as browsers send it; may be repeated")
	cmd.Flags().BoolVar(&o.readOnly, "read-only", false, "leave out everything that changes a run")
	cmd.Flags().StringVar(&o.token, "metrics-token-file", "", "file of the token with which /metrics is read (Authorization: Bearer …); made if it is not there")
	cmd.Flags().BoolVar(&o.noOpen, "no-open", false, "print the address, and open no browser")
	return cmd
}

func (o *uiOptions) run(ctx context.Context) error {
	for _, host := range o.hosts {
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			return usagef("--host is the name of a proxy in front of bide; to serve other machines write: --listen :8080")
		}
	}
	path := "/"
	st, err := o.openStore()
	if err != nil {
		return err
	}
	if o.id != "" {
		id, err := st.Find(o.id)
		if n, aerr := strconv.Atoi(o.id); err != nil && aerr == nil && n > 1000 {
			return usagef("%w; for a port write: --listen 127.0.0.1:%d", err, n)
		}
		if err != nil {
			return err
		}
		path = "/runs/" + id
	}
	token, err := metricsToken(o.token)
	if err != nil {
		return fmt.Errorf("--metrics-token-file: %w", err)
	}
	s, err := o.dashboard(web.Options{Store: st, Listen: o.listen, Hosts: o.hosts, ReadOnly: o.readOnly, MetricsToken: token})
	if err != nil {
		return usageError{err}
	}
	sig := watchSignals(ctx, func(os.Signal) {})
	sig.ready() // whoever reads the address may end it immediately
	defer sig.stop()
	if _, err := fmt.Fprintln(o.out, s.URL(path)); err != nil {
		return err
	}
	for _, url := range s.Outside(path) {
		o.tell("through the proxy: %s", url)
	}
	for i, url := range s.Elsewhere(path) {
		if i == 0 {
			o.tell("all machines that reach this one reach the page, and nothing on the way is encrypted: --host names a proxy that speaks TLS")
		}
		o.tell("from another machine: %s", url)
	}
	if !o.noOpen {
		defer o.browse(s.URL(path))()
	}
	defer o.keepUp(st)()
	return s.Serve(sig.soft)
}

// metricsToken reads a token from a file. If there is none, it writes one that only the owner
// can read.
func metricsToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		token := rand.Text()
		return token, files.Create(path, 0o600, files.Synced([]byte(token+"\n")))
	}
	token := strings.TrimSpace(string(b))
	if err == nil && len(token) < 16 {
		err = fmt.Errorf("%s has no token of 16 characters or more", path)
	}
	return token, err
}

// uiBeside serves the dashboard until end is called, and opens it in a browser.
func (s *streams) uiBeside(st *journal.Store) (end func() error, err error) {
	server, err := s.dashboard(web.Options{Store: st})
	if err != nil {
		return nil, err
	}
	s.tell("the dashboard is at %s until the run ends; `bide ui` shows it later", server.URL("/"))
	closed := s.browse(server.URL("/"))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	return func() error {
		cancel()
		closed()
		return <-ended
	}, nil
}

// dashboard opens the port and prints further addresses.
func (s *streams) dashboard(opt web.Options) (*web.Server, error) {
	opt.Reissued = func(url string) { s.tell("for another browser: %s", url) }
	opt.Waiting = func(ctx context.Context) (web.Waiting, error) { return waiting(ctx, opt.Store) }
	opt.Machines, opt.OnMachines = clusterState, namesServer(opt.Store.Dir)
	return web.New(opt)
}

// namesServer reports whether something on this machine names a Temporal server: a variable, the
// file of Temporal's own tools, or the development server of `bide cluster dev`, whose database
// is in home.
func namesServer(home string) bool {
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "TEMPORAL_") && value != "" {
			return true
		}
	}
	paths := []string{filepath.Join(home, devDatabase)}
	if dir, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(dir, "temporalio", "temporal.toml"))
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// browse opens an address in a browser, and reports an error. Call closed when the address no
// longer works.
func (s *streams) browse(url string) (closed func()) {
	page, err := openBrowser(url)
	if err != nil {
		s.tell("no browser was opened (%v); open the address yourself", err)
	}
	return func() {
		if page != "" {
			_ = os.Remove(page) // its token is useless now
		}
	}
}

// openBrowser asks the system to show an address, and does not wait. Whoever has the address
// gets in, and all users of the machine can see a program's arguments: so the address is in a
// page that only this user can read.
func openBrowser(url string) (page string, err error) {
	command := cmp.Or(map[string]string{"darwin": "open"}[runtime.GOOS], "xdg-open")
	path, err := exec.LookPath(command)
	if err != nil {
		return "", errors.New("there is no " + command)
	}
	if page, err = privatePage(url); err != nil {
		return page, err
	}
	cmd := exec.Command(path, page)
	if err := cmd.Start(); err != nil {
		return page, err
	}
	return page, cmd.Process.Release()
}

// privatePage writes a page that leads to an address.
func privatePage(url string) (path string, err error) {
	f, err := os.CreateTemp("", "bide-*.html") // readable by its owner alone
	if err != nil {
		return "", err
	}
	to := html.EscapeString(url)
	_, err = fmt.Fprintf(f, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\"><meta http-equiv=\"refresh\" content=\"0; url=%s\"><title>bide</title><p><a href=\"%s\">Open the dashboard</a></p></html>\n", to, to)
	return f.Name(), errors.Join(err, f.Close())
}
