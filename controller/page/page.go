package page

import (
	"context"
	"embed"
	"net/http"
	"strings"
	"sync"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// Root is the path of the page on a server.
const Root = "/page/"

// maxClients bounds the browsers that are connected at once.
const maxClients = 16

//go:embed files
var files embed.FS

// Manager is what the page shows of a manager.
type Manager struct {
	Events  streams.Stream[streams.Event]    // that enter the cache
	Changes streams.Stream[streams.Change]   // of the cache
	Results streams.Stream[operators.Result] // of attempts
	Levels  streams.Stream[cache.Level]      // of sync

	// State returns the state of the manager, which is encoded as JSON. It may be called from any goroutine.
	State func() any

	// Context returns a context that ends with the manager.
	Context func() context.Context
}

// Page is the handler of all paths below [Root]. Create it with [New].
type Page struct {
	of     Manager
	static map[string]*asset // by path

	mu      sync.Mutex
	clients int
	current *gathering // nil without clients
}

// New creates the page of a manager.
func New(of Manager) (*Page, error) {
	static, err := load(files)
	if err != nil {
		return nil, err
	}
	return &Page{of: of, static: static}, nil
}

// NewWithoutManager creates a page that shows a recording alone: see [Past]. It has no events.
func NewWithoutManager() (*Page, error) {
	static, err := load(files)
	if err != nil {
		return nil, err
	}
	return &Page{static: static}, nil
}

// policy lets the browser load nothing but the files of the page, and send nothing elsewhere. Names of objects are input of strangers, so
// it also forbids scripts within the HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP serves the files of the page, and its events.
func (p *Page) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache")
	name := strings.TrimPrefix(request.URL.Path, Root)
	switch {
	case request.Method != http.MethodGet:
		header.Set("Allow", http.MethodGet)
		http.Error(w, "the page is read-only; use GET", http.StatusMethodNotAllowed)
	case name == "events" && p.of.State != nil:
		p.follow(w, request)
	case name == "":
		p.static["index.html"].serve(w, request)
	case p.static[name] != nil:
		p.static[name].serve(w, request)
	default:
		http.NotFound(w, request)
	}
}
