// Package bucket keeps the objects of a store of runs in a bucket of S3, or of a server
// that speaks like it. An object is created by a conditional write (If-None-Match), which
// is what decides between several who create one name.
package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bide-dev/bide/cmd/bide-temporal/spool"
	"github.com/bide-dev/bide/internal/cluster"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	// patience is how long the server may take to answer, and slowest the speed at which
	// the bytes of an object go at least, in bytes a second.
	patience = time.Minute
	slowest  = 100_000
	// writes is how often a write is tried of which the server did not say how it ended, or
	// that it could not decide about, as there was another one of the same name.
	writes = 10
	page   = 1000 // names in an answer at most
	// probe is an object that shows whether the server knows conditional writes.
	probe = "conditional-writes"
	// byKey names the mark that a writer puts on its object: when the answer to a write is
	// lost, the writer knows its object by it.
	byKey = "bide-by"
)

// Open gives the objects of s3:BUCKET/PREFIX. The server and the credentials are those
// of the AWS_ variables, of the AWS credentials file, or of the machine. Nothing is
// connected yet.
func Open(text string) (cluster.Objects, error) {
	place, prefix, _ := strings.Cut(strings.TrimPrefix(text, "s3:"), "/")
	endpoint := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	own := endpoint != ""
	u, err := url.Parse(cmp.Or(endpoint, "https://s3.amazonaws.com"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return nil, errors.New("AWS_ENDPOINT_URL is not the address of a server: write https://HOST or http://HOST:PORT")
	}
	chain := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if !own && os.Getenv("AWS_EC2_METADATA_DISABLED") != "true" {
		chain = append(chain, &credentials.IAM{})
	}
	region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	lookup := minio.BucketLookupAuto
	if own {
		region, lookup = cmp.Or(region, "us-east-1"), minio.BucketLookupPath
	}
	client := minio.Options{Creds: credentials.NewChainCredentials(chain), Secure: u.Scheme == "https", Region: region, BucketLookup: lookup}
	core, err := minio.NewCore(u.Host, &client)
	if err != nil {
		return nil, err
	}
	client.MaxRetries = 1
	once, err := minio.NewCore(u.Host, &client)
	if err != nil {
		return nil, err
	}
	return &objects{core: core, once: once, server: u.Host, bucket: place, prefix: prefix}, nil
}

type objects struct {
	core                   *minio.Core
	once                   *minio.Core // tries once: a second try of the library reads from where the first still reads
	server, bucket, prefix string

	mu     sync.Mutex
	probed bool // the server knows conditional writes
}

func (o *objects) key(name string) string { return path.Join(o.prefix, name) }

// fails is an error of the server, with what was done to what, and what to do about it.
func (o *objects) fails(op, name string, err error) error {
	a := minio.ToErrorResponse(err)
	switch a.Code {
	case "NoSuchKey":
		err = fs.ErrNotExist
	case "NoSuchBucket":
		err = fmt.Errorf("%s has no bucket %s: make it, or write another one", o.server, o.bucket)
	case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken":
		err = fmt.Errorf("%s refuses it (%s): %w look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or at the rights of the machine", o.server, a.Code, err)
	default:
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err
		}
		if a.Code != "" && a.Code != "InternalError" {
			err = fmt.Errorf("%w (%s)", err, a.Code)
		}
		err = fmt.Errorf("%s: %w", o.server, err)
	}
	return &fs.PathError{Op: op, Path: "s3:" + path.Join(o.bucket, o.key(name)), Err: err}
}

func (o *objects) Create(name string, write func(io.Writer) error) error {
	if err := o.conditional(); err != nil {
		return err
	}
	s, err := spool.Take(write)
	if err != nil {
		return err
	}
	return errors.Join(o.put(name, s), s.Close())
}

// put creates an object, only if its name is free.
func (o *objects) put(name string, s *spool.Spool) error {
	by := rand.Text()
	ctx, cancel := context.WithTimeout(context.Background(), patience+time.Duration(s.Size/slowest)*time.Second)
	defer cancel()
	for try := 1; ; try++ {
		// The digest of all of it is signed, and not one of each piece.
		opts := minio.PutObjectOptions{UserMetadata: map[string]string{byKey: by}, DisableContentSha256: true}
		opts.SetMatchETagExcept("*")
		_, err := o.once.PutObject(ctx, o.bucket, o.key(name), s.Reader(), s.Size, "", s.SHA256(), opts)
		if err == nil {
			return nil
		}
		switch a := minio.ToErrorResponse(err); {
		case a.StatusCode == http.StatusPreconditionFailed || a.Code == "PreconditionFailed":
			if mine, err := o.isBy(name, by); err != nil || mine {
				return err
			}
			return &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
		case undecided(err, a.StatusCode) && try < writes && ctx.Err() == nil:
			time.Sleep(time.Duration(try) * 20 * time.Millisecond)
		default:
			return o.fails("write", name, err)
		}
	}
}

// undecided reports whether a write may be tried again: there was no answer, or one that says
// nothing of the write.
func undecided(err error, status int) bool {
	switch status {
	case http.StatusConflict, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case 0:
		return errors.As(err, new(*url.Error)) || errors.Is(err, io.ErrUnexpectedEOF)
	}
	return status >= 500
}

// isBy reports whether a writer has created an object: an earlier attempt at it has
// succeeded then, of which no answer came.
func (o *objects) isBy(name, by string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	info, err := o.core.StatObject(ctx, o.bucket, o.key(name), minio.StatObjectOptions{})
	if err != nil {
		return false, o.fails("read", name, err)
	}
	for key, value := range info.UserMetadata {
		if strings.EqualFold(key, byKey) {
			return value == by, nil
		}
	}
	return false, nil
}

// conditional tries, once, whether the server keeps to the condition of a write: on one
// that does not, a run could have two coordinators.
func (o *objects) conditional() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range 2 {
		if o.probed {
			return nil
		}
		s, err := spool.Take(func(w io.Writer) error {
			_, err := io.WriteString(w, "this server knows conditional writes\n")
			return err
		})
		if err == nil {
			err = errors.Join(o.put(probe, s), s.Close())
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		o.probed = err != nil
	}
	if !o.probed {
		return fmt.Errorf("%s does not know conditional writes (If-None-Match), and without them two machines could record one run: use a server that does, or a store dir: or postgres:", o.server)
	}
	return nil
}

func (o *objects) Read(name string, from int64) (io.ReadCloser, error) {
	var opts minio.GetObjectOptions
	if from > 0 {
		if err := opts.SetRange(from, 0); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &body{cancel: cancel, late: time.AfterFunc(patience, cancel)}
	f, _, _, err := o.core.GetObject(ctx, o.bucket, o.key(name), opts)
	if err != nil {
		b.late.Stop()
		cancel()
		if a := minio.ToErrorResponse(err); a.Code == "InvalidRange" || a.StatusCode == http.StatusRequestedRangeNotSatisfiable {
			return io.NopCloser(bytes.NewReader(nil)), nil
		}
		return nil, o.fails("read", name, err)
	}
	b.f = f
	return b, nil
}

// body is an object on its way. Each read of it has its time.
type body struct {
	f      io.ReadCloser
	cancel context.CancelFunc
	late   *time.Timer
}

func (b *body) Read(p []byte) (int, error) {
	b.late.Reset(patience)
	return b.f.Read(p)
}

func (b *body) Close() error {
	b.late.Stop()
	_, _ = io.CopyN(io.Discard, b.f, 64<<10) // else the connection is not used again
	err := b.f.Close()
	b.cancel()
	return err
}

func (o *objects) List(folder string) ([]string, error) {
	var names []string
	prefix := o.key(folder) + "/"
	for token := ""; ; {
		list, err := o.core.ListObjectsV2(o.bucket, prefix, "", token, "/", page)
		if err != nil {
			return nil, o.fails("list", folder, err)
		}
		for _, c := range list.Contents {
			names = append(names, strings.TrimPrefix(c.Key, prefix))
		}
		for _, c := range list.CommonPrefixes {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(c.Prefix, prefix), "/"))
		}
		if token = list.NextContinuationToken; !list.IsTruncated || token == "" {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
	}
}

// Remove removes what is below a place: first the objects that stand in it, which are
// what makes a run of it.
func (o *objects) Remove(place string) error {
	first, err := o.List(place)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, name := range first {
		if err := o.core.RemoveObject(ctx, o.bucket, o.key(path.Join(place, name)), minio.RemoveObjectOptions{}); err != nil {
			return o.fails("remove", path.Join(place, name), err)
		}
	}
	var listed error
	keys := make(chan minio.ObjectInfo)
	go func() {
		defer close(keys)
		for info := range o.core.Client.ListObjects(ctx, o.bucket, minio.ListObjectsOptions{Prefix: o.key(place) + "/", Recursive: true}) {
			if info.Err != nil {
				listed = o.fails("list", place, info.Err)
				return
			}
			keys <- info
		}
	}()
	var errs []error
	for e := range o.core.RemoveObjects(ctx, o.bucket, keys, minio.RemoveObjectsOptions{}) {
		errs = append(errs, o.fails("remove", strings.TrimPrefix(e.ObjectName, o.prefix+"/"), e.Err))
	}
	return errors.Join(append(errs, listed)...)
}
