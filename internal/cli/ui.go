package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/web"
	"github.com/spf13/cobra"
)

// uiFlags say how the dashboard is served.
type uiFlags struct {
	listen   string
	hosts    []string
	readOnly bool
	noOpen   bool
	token    string // file of the token of those who read metrics
}

func (a *app) uiCmd() *cobra.Command {
	f := &uiFlags{}
	cmd := &cobra.Command{
		Use:   "ui [RUN]",
		Short: "Show the runs in a browser",
		Long: `Serves the dashboard on this machine and opens it in a browser: the runs, each with
its timeline, its outputs, its map and its dead letters, live. With RUN, an id or its
beginning, it opens that run. It serves until it is interrupted; runs go on.

The address on the first line of standard output lets one browser in, once; then a
new one is printed. Behind a proxy, name it with --host: requests under other names
are refused. /metrics has what the runs do meanwhile, for Prometheus.`,
		Example: `  bide ui
  bide ui 01KAJ3 --no-open
  bide ui --listen 127.0.0.1:8080 --read-only
  bide ui --listen 127.0.0.1:8080 --host bide.example.org --no-open`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.ui(cmd.Context(), first(args), f) },
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "address to serve on, HOST:PORT; port 0 is a free one")
	cmd.Flags().StringArrayVar(&f.hosts, "host", nil, "name of a proxy in front, NAME or NAME:PORT as browsers send it; may be repeated")
	cmd.Flags().BoolVar(&f.readOnly, "read-only", false, "leave out everything that changes a run")
	cmd.Flags().StringVar(&f.token, "metrics-token-file", "", "file of the token with which /metrics is read (Authorization: Bearer …); made if it is not there")
	cmd.Flags().BoolVar(&f.noOpen, "no-open", false, "print the address, and open no browser")
	return cmd
}

func (a *app) ui(ctx context.Context, run string, f *uiFlags) error {
	path := "/"
	st, err := a.store()
	if err != nil {
		return err
	}
	if run != "" {
		id, err := st.Find(run)
		if err != nil {
			return err
		}
		path = "/runs/" + id
	}
	token, err := metricsToken(f.token)
	if err != nil {
		return fmt.Errorf("--metrics-token-file: %w", err)
	}
	s, err := a.dashboard(web.Options{Store: st, Listen: f.listen, Hosts: f.hosts, ReadOnly: f.readOnly, MetricsToken: token})
	if err != nil {
		return usageError{err}
	}
	sig := watchSignals(ctx, func(os.Signal) {})
	sig.ready() // who reads the address may end it at once
	defer sig.stop()
	if _, err := fmt.Fprintln(a.out, s.URL(path)); err != nil {
		return err
	}
	for _, url := range s.Outside(path) {
		fmt.Fprintf(a.err, "bide: through the proxy: %s\n", url)
	}
	if !f.noOpen {
		defer a.browse(s.URL(path))()
	}
	defer a.keepUp(st)()
	return s.Serve(sig.soft)
}

// metricsToken reads a token from a file, or makes one there that only its owner
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
func (a *app) uiBeside(st *journal.Store) (end func() error, err error) {
	s, err := a.dashboard(web.Options{Store: st})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(a.err, "bide: the dashboard is at %s until the run ends; `bide ui` shows it later\n", s.URL("/"))
	closed := a.browse(s.URL("/"))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	return func() error {
		cancel()
		closed()
		return <-ended
	}, nil
}

// dashboard opens the port and tells each further address.
func (a *app) dashboard(opt web.Options) (*web.Server, error) {
	opt.Reissued = func(url string) { fmt.Fprintf(a.err, "bide: for another browser: %s\n", url) }
	return web.New(opt)
}

// browse opens an address in a browser, and says so where it could not. What it
// gives is to be called when the address opens nothing any more.
func (a *app) browse(url string) (closed func()) {
	page, err := openBrowser(url)
	if err != nil {
		fmt.Fprintf(a.err, "bide: no browser was opened (%v); open the address yourself\n", err)
	}
	return func() {
		if page != "" {
			_ = os.Remove(page) // its token is of no use any more
		}
	}
}

// openBrowser asks the system to show an address. It does not wait for it. The
// address lets in whoever has it, and all users of the machine see the arguments of
// a program: it stands in a page that this user alone can read.
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
