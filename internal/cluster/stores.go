package cluster

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bide-dev/bide/internal/pattern"
)

// The text of a store is its name for all machines: it travels in plans, events and
// messages and through Temporal, so it has no secrets in it. Each machine finds the
// credentials for it in its own environment.

// storeForms is the list of accepted forms, for messages.
const storeForms = "dir:PATH (a directory that all machines see), s3:BUCKET/PREFIX, or postgres://USER@HOST/DATABASE"

// OpenStore opens the store that --store names: dir:PATH or a path, s3:BUCKET/PREFIX, or
// postgres: with a URL or the keywords of libpq. It does not connect yet.
func OpenStore(text string) (Store, error) {
	kind, rest, ok := strings.Cut(text, ":")
	switch {
	case !ok:
		return openDir(text, text)
	case kind == "dir":
		return openDir(text, rest)
	case kind == "s3" && strings.Contains(rest, "@"):
		return Store{}, errors.New("the store s3:…: its name goes to all machines and into the record of the run: write s3:BUCKET/PREFIX, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY on each machine")
	case kind == "s3":
		name, err := bucketName(rest)
		if err != nil {
			return Store{}, fmt.Errorf("the store %q: %w", text, err)
		}
		return opened(kind, "s3:"+name)
	case kind == "postgres" || kind == "postgresql":
		name, err := databaseName(rest)
		if err != nil {
			return Store{}, fmt.Errorf("the store %s: %w", withoutSecrets(text), err)
		}
		return opened("postgres", name)
	}
	return Store{}, fmt.Errorf("the store %q: there is no kind %q; write %s", text, kind, storeForms)
}

func openDir(text, path string) (Store, error) {
	if !filepath.IsAbs(path) {
		return Store{}, fmt.Errorf("the store %q: its path must be absolute, as it has to be the same one on all machines; write %s", text, storeForms)
	}
	path = filepath.Clean(path)
	return Store{"dir:" + path, dir(path)}, nil
}

var bucketForm = pattern.Lazy(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// bucketName reads BUCKET/PREFIX, also if it is written as a URL.
func bucketName(text string) (string, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(text, "//"), "/")
	if !bucketForm().MatchString(bucket) {
		return "", fmt.Errorf("%q is no name of a bucket, which has 3 to 63 small letters, digits, dots and hyphens; write s3:BUCKET/PREFIX", bucket)
	}
	if clean := path.Clean("/" + prefix); strings.TrimSuffix("/"+prefix, "/") != strings.TrimSuffix(clean, "/") || strings.ContainsAny(prefix, "?#\\") || !printable(prefix) {
		return "", fmt.Errorf("%q is no prefix of names: write plain names with slashes between them, as in s3:%s/bide", prefix, bucket)
	}
	return strings.TrimSuffix(bucket+"/"+prefix, "/"), nil
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd })
}

// secretKeys are the keywords of a connection whose values are secret.
var secretKeys = []string{"password", "sslpassword", "oauth_client_secret"}

var secretWord = pattern.Lazy(`(?i)(^|[\s?&])(password|sslpassword|oauth_client_secret)\s*=`)

const noSecrets = "it has a password in it, and a store's name goes to all machines and into the record of the run: leave the password out, and set PGPASSWORD, or write it to ~/.pgpass, on each machine"

// databaseName reads the text after postgres:, a URL or the keywords of libpq.
func databaseName(text string) (string, error) {
	if !strings.HasPrefix(text, "//") {
		text = strings.TrimSpace(text)
		switch {
		case secretWord().MatchString(text):
			return "", errors.New(noSecrets)
		case !strings.Contains(text, "="):
			return "", errors.New("it names no database: write postgres://USER@HOST/DATABASE, or postgres:host=HOST user=USER dbname=DATABASE")
		}
		return "postgres:" + text, nil
	}
	u, err := url.Parse("postgres:" + text)
	if err != nil {
		return "", errors.New("it is no URL of a database: write postgres://USER@HOST/DATABASE")
	}
	_, has := u.User.Password()
	for key := range u.Query() {
		has = has || slices.Contains(secretKeys, strings.ToLower(key))
	}
	switch {
	case has:
		return "", errors.New(noSecrets)
	case strings.Trim(u.Path, "/") == "" && !u.Query().Has("dbname") && !u.Query().Has("service"):
		return "", errors.New("it names no database: write postgres://USER@HOST/DATABASE")
	}
	return u.String(), nil
}

// withoutSecrets makes a text that may have a password in it safe for messages.
func withoutSecrets(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		if u.User != nil {
			u.User = url.User(u.User.Username())
		}
		u.RawQuery = ""
		return u.String()
	}
	kind, _, _ := strings.Cut(text, ":")
	return kind + ":…"
}

// Opener opens a store of one kind other than a directory. It need not connect to it.
type Opener func(text string) (Objects, error)

var openers struct {
	sync.Mutex
	by   map[string]Opener
	open map[string]Objects // by text
}

// Register makes OpenStore open stores of a kind, s3 or postgres. A program that has the
// client for them calls it.
func Register(kind string, open Opener) {
	openers.Lock()
	defer openers.Unlock()
	if openers.by == nil {
		openers.by, openers.open = map[string]Opener{}, map[string]Objects{}
	}
	openers.by[kind] = open
}

// opened gives the one store with a text in this process.
func opened(kind, text string) (Store, error) {
	openers.Lock()
	defer openers.Unlock()
	if o, ok := openers.open[text]; ok {
		return Store{text, o}, nil
	}
	open := openers.by[kind]
	if open == nil {
		return Store{}, fmt.Errorf("the store %q: this program cannot open a store %s", text, kind)
	}
	o, err := open(text)
	if err != nil {
		return Store{}, fmt.Errorf("the store %q: %w", text, err)
	}
	openers.open[text] = o
	return Store{text, o}, nil
}
