// Package browse shows the page of an operator to a browser on this machine. A browser has no token, so a proxy adds it.
package browse

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/controller/page"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"k8s.io/apimachinery/pkg/runtime"
)

// The paths that the page needs. With all others, the proxy would lend the user's token to more than the page.
const (
	pages = "/page/"
	past  = "/debug/past/"
)

var questions = []string{"/debug/manager", "/debug/tree", "/debug/why"}

// Proxy forwards requests of a browser to an operator, and adds the token, or answers from a recording. The port is open to all users of this machine, and to each site
// that the browser shows. Three checks keep these out: the key, the Host header, and the method with the path.
type Proxy struct {
	key     string // it is printed on the terminal alone
	port    string
	forward atomic.Pointer[http.Handler]
}

// New creates a proxy to a server, for a listener at a port of the loopback interface.
func New(server ask.Server, port string) (*Proxy, error) {
	made := &Proxy{key: rand.Text(), port: port}
	return made, made.SetServer(server)
}

// SetServer sends further requests to another server. Requests in flight stay at the one before.
func (p *Proxy) SetServer(server ask.Server) error {
	target, err := url.Parse(server.URL)
	if err != nil {
		return fmt.Errorf("--server is %s; give a URL such as http://127.0.0.1:8080: %w", server.URL, err)
	}
	transport, err := server.Transport()
	if err != nil {
		return err
	}
	p.sendTo(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(of *httputil.ProxyRequest) {
			of.SetURL(target)
			header := http.Header{} // Cookies are for the proxy, and for other servers of this host.
			for _, name := range []string{"Accept", "If-None-Match", "Last-Event-Id"} {
				if value := of.In.Header.Get(name); value != "" {
					header.Set(name, value)
				}
			}
			of.Out.Header = header
		},
		ErrorHandler: func(w http.ResponseWriter, request *http.Request, err error) {
			if request.Context().Err() == nil {
				http.Error(w, fmt.Sprintf("the operator does not answer: %v; the page connects again when it does", err), http.StatusBadGateway)
			}
		},
		ErrorLog: log.New(io.Discard, "", 0), // An operator that ends breaks each stream off.
	})
	return nil
}

func (p *Proxy) sendTo(forward http.Handler) { p.forward.Store(&forward) }

// NewRecorded creates the server of a recording, with the checks of a proxy. objects has the kinds whose objects are in protobuf.
func NewRecorded(recording string, objects *runtime.Scheme, port string) (*Proxy, error) {
	shown, err := page.NewWithoutManager()
	if err != nil {
		return nil, err
	}
	both := http.NewServeMux()
	both.Handle("GET "+page.Root, shown)
	both.Handle("GET "+page.PastRoot, page.NewPast(recording, objects, false))
	made := &Proxy{key: rand.Text(), port: port}
	made.sendTo(both)
	return made, nil
}

// URL returns the URL that lets a browser in.
func (p *Proxy) URL() string { return "http://127.0.0.1:" + p.port + pages + "?key=" + p.key }

// cookie returns the name of the cookie. Browsers send a cookie to all ports of a host, so the name has the port.
func (p *Proxy) cookie() string { return "bellerophon-page-" + p.port }

// ServeHTTP answers a request that passes the checks.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	switch {
	// A site may point its own name at 127.0.0.1 (DNS rebinding). Its scripts could then read what this port answers.
	case request.Host != "127.0.0.1:"+p.port && request.Host != "localhost:"+p.port:
		refuse(w, http.StatusMisdirectedRequest, "the host is another one; use the URL that bellerophon page printed")
	case request.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, http.StatusMethodNotAllowed, "the page is read-only; use GET")
	case !isOfThePage(request.URL.Path):
		refuse(w, http.StatusNotFound, "the proxy forwards the page and its questions alone")
	case p.isKey(query.Get("key")):
		// The cookie keeps the key out of the browser's history and of further URLs. Scripts cannot read it, and no other site's request has it.
		http.SetCookie(w, &http.Cookie{Name: p.cookie(), Value: p.key, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, request, pages, http.StatusSeeOther)
	case query.Has("key") || !p.hasCookie(request):
		refuse(w, http.StatusForbidden, "the key is missing or wrong; use the URL that bellerophon page printed")
	// SameSite ignores the port, so a page of another port of this machine may send the browser here with the cookie. The browser says so.
	case !slices.Contains([]string{"", "none", "same-origin"}, request.Header.Get("Sec-Fetch-Site")):
		refuse(w, http.StatusForbidden, "another site asks for the page; use the URL that bellerophon page printed")
	default:
		(*p.forward.Load()).ServeHTTP(w, request)
	}
}

func (p *Proxy) hasCookie(request *http.Request) bool {
	cookie, err := request.Cookie(p.cookie())
	return err == nil && p.isKey(cookie.Value)
}

// isKey compares in constant time, so that the time of an answer says nothing about the key.
func (p *Proxy) isKey(given string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(p.key)) == 1
}

func isOfThePage(asked string) bool {
	if slices.Contains(questions, asked) {
		return true
	}
	if path.Clean(asked) != asked { // A path with dots could leave the page.
		return asked == pages
	}
	return strings.HasPrefix(asked, pages) || strings.HasPrefix(asked, past)
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, text, code)
}

// Serve answers at a listener until ctx ends. Streams that the browser reads then end too.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	group := lifecycle.New(ctx)
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return group.Context() },
		ErrorLog:    log.New(io.Discard, "", 0),
	}
	group.Go("stop", func(ctx context.Context) error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			return server.Close()
		}
		return nil
	})
	err := server.Serve(listener)
	group.Stop()
	if stopped := group.Wait(); stopped != nil || errors.Is(err, http.ErrServerClosed) {
		return stopped
	}
	return err
}
