package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed dist/*.js dist/*.css
var dist embed.FS

// assets are the scripts and the style. Their addresses name their content, so
// that a browser may keep them.
type assets struct {
	content map[string][]byte // by the file's name
	digest  map[string]string
}

func newAssets() (*assets, error) {
	a := &assets{content: map[string][]byte{}, digest: map[string]string{}}
	files, err := dist.ReadDir("dist")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		b, err := dist.ReadFile(path.Join("dist", f.Name()))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(b)
		a.content[f.Name()], a.digest[f.Name()] = b, hex.EncodeToString(sum[:6])
	}
	for _, want := range []string{"app.js", "app.css", "worker.js"} {
		if a.content[want] == nil {
			return nil, fmt.Errorf("the dashboard's %s is not in the program; `make web` builds it", want)
		}
	}
	return a, nil
}

// path is the address of a file.
func (a *assets) path(name string) string { return "/assets/" + a.digest[name] + "/" + name }

func (a *assets) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /assets/{digest}/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		b, ok := a.content[name]
		if !ok || a.digest[name] != r.PathValue("digest") {
			http.NotFound(w, r)
			return
		}
		if strings.HasSuffix(name, ".js") {
			w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		} else {
			w.Header().Set("Content-Type", "text/css; charset=utf-8")
		}
		w.Header().Set("Cache-Control", "max-age=31536000, immutable")
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
	})
}
