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
	// patience is how long a call may take with all its tries, without the time for the bytes
	// of an object, of which at least slowest are sent in a second. silence is how long a try
	// may receive nothing: its connection may be dead, and the next try opens another one.
	patience = time.Minute
	silence  = 15 * time.Second
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
	transport, err := transportOf(u.Scheme == "https")
	if err != nil {
		return nil, err
	}
	o := &objects{server: u.Host, bucket: place, prefix: prefix, patience: patience, creds: credentials.NewChainCredentials(chain)}
	return o, o.connect(minio.Options{Creds: o.creds, Secure: u.Scheme == "https", Region: region, BucketLookup: lookup, Transport: quiet{transport, silence}})
}

// connect makes the clients of the server. Nothing is connected yet.
func (o *objects) connect(client minio.Options) (err error) {
	if o.core, err = minio.NewCore(o.server, &client); err != nil {
		return err
	}
	client.MaxRetries = 1
	o.once, err = minio.NewCore(o.server, &client)
	return err
}

type objects struct {
	core                   *minio.Core
	once                   *minio.Core // tries once: a second try of the library reads from where the first still reads
	creds                  *credentials.Credentials
	server, bucket, prefix string
	patience               time.Duration

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
	case "RequestTimeTooSkewed":
		err = fmt.Errorf("%s refuses it (%s): the clock of this machine differs from that of the server: set it", o.server, a.Code)
	case "AuthorizationHeaderMalformed", "PermanentRedirect":
		err = fmt.Errorf("%s refuses it (%s): %w: AWS_REGION is to be the region of the bucket %s", o.server, a.Code, err, o.bucket)
	default:
		if refused(a.Code) {
			o.creds.Expire() // the next call reads them anew: another program may renew them
			err = fmt.Errorf("%s refuses it (%s): %s: look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or at the rights of the machine", o.server, a.Code, strings.TrimRight(err.Error(), ". "))
			break
		}
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err
		}
		switch {
		case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
			err = fmt.Errorf("no answer within %v", o.patience)
		case isCertificate(err):
			err = fmt.Errorf("%w: AWS_CA_BUNDLE names a file with the certificates of authorities that are trusted beside those of the system", err)
		case a.Code != "" && a.Code != "InternalError":
			err = fmt.Errorf("%w (%s)", err, a.Code)
		}
		err = fmt.Errorf("%s: %w", o.server, err)
	}
	return &fs.PathError{Op: op, Path: "s3:" + path.Join(o.bucket, o.key(name)), Err: err}
}

// refused reports whether the server does not take the credentials, by its code.
func refused(code string) bool {
	switch code {
	case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired":
		return true
	}
	return false
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
	ctx, cancel := context.WithTimeout(context.Background(), o.patience+time.Duration(s.Size/slowest)*time.Second)
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
		case refused(a.Code) && try == 1: // they may have been renewed meanwhile
			o.creds.Expire()
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
		return errors.As(err, new(*url.Error)) && !isCertificate(err) || errors.Is(err, io.ErrUnexpectedEOF)
	}
	return status >= 500
}

// isBy reports whether a writer has created an object: an earlier attempt at it has
// succeeded then, of which no answer came.
func (o *objects) isBy(name, by string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), o.patience)
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
	late := time.AfterFunc(o.patience, cancel)
	f, _, _, err := o.core.GetObject(ctx, o.bucket, o.key(name), opts)
	late.Stop()
	if err != nil {
		cancel()
		if a := minio.ToErrorResponse(err); a.Code == "InvalidRange" || a.StatusCode == http.StatusRequestedRangeNotSatisfiable {
			return io.NopCloser(bytes.NewReader(nil)), nil
		}
		return nil, o.fails("read", name, err)
	}
	return &body{f, cancel}, nil
}

// body is an object on its way.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *body) Close() error {
	_, _ = io.CopyN(io.Discard, b.ReadCloser, 64<<10) // else the connection is not used again
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

func (o *objects) List(folder string) ([]string, error) {
	var names []string
	prefix := o.key(folder) + "/"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	late := time.AfterFunc(o.patience, cancel)
	defer late.Stop()
	for info := range o.core.ListObjectsIter(ctx, o.bucket, minio.ListObjectsOptions{Prefix: prefix, MaxKeys: page}) {
		if info.Err != nil {
			return nil, o.fails("list", folder, info.Err)
		}
		late.Reset(o.patience)
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(info.Key, prefix), "/"))
	}
	if ctx.Err() != nil {
		return nil, o.fails("list", folder, ctx.Err())
	}
	slices.Sort(names)
	return slices.Compact(names), nil
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
