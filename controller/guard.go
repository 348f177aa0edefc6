package controller

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

const (
	allowedFor  = time.Minute      // how long a permission counts, also after it was revoked
	refusedFor  = 10 * time.Second // how long a refusal counts, also after it was granted
	reviewTime  = 10 * time.Second // how long the reviews of a request may take
	maxReviews  = 8                // requests that are under review at once, of clients that were allowed and of others; more wait
	maxVerdicts = 1024             // permissions, and as many refusals, that are kept
	logReviews  = time.Minute      // the least time between two logs of reviews that failed
)

// guard lets requests pass whose sender the API server accepts. Its methods may be called from any
// goroutine.
type guard struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
	log    *slog.Logger

	certificate *servingCertificate
	clients     *clientAuthorities // nil if only tokens count

	secret   [sha256.Size]byte         // the key of the hashes: without it, a hash shows nothing about its token
	reviews  chan struct{}             // has an item for each request under review
	renewals chan struct{}             // the same for clients that were allowed before, so that others do not hold them up
	logged   atomic.Pointer[time.Time] // when a failure was logged last, or nil

	// Refusals have their own space, so that a flood of invalid tokens does not displace permissions.
	allowed, refused *lru.Cache[asked, verdict]
}

// asked is the keyed hash of the credentials of a request and of its path.
type asked [sha256.Size]byte

// credentials say who sends a request: a user of a client certificate that was verified, or a token.
type credentials struct {
	user  *authenticationv1.UserInfo // nil without a certificate
	print []byte                     // of the certificate
	token string
}

// verdict is the answer to a request.
type verdict struct {
	code    int // of HTTP
	text    string
	expires time.Time
}

// gone is the verdict on a request whose client has gone.
var gone = verdict{code: http.StatusServiceUnavailable, text: "the client has gone"}

func newGuard(m *Manager) (*guard, error) {
	certificate, err := newServingCertificate(m.options.Certificate, m.log)
	if err != nil {
		return nil, err
	}
	if err := m.options.Registry.Register(certificate.expiry()); err != nil {
		return nil, err
	}
	clients, err := newClientAuthorities(m.options.ClientAuthorities, m.log)
	if err != nil {
		return nil, err
	}
	tokens, err := authenticationclient.NewForConfigAndClient(m.config, m.http)
	if err != nil {
		return nil, fmt.Errorf("making a client for reviews: %w", err)
	}
	access, err := authorizationclient.NewForConfigAndClient(m.config, m.http)
	if err != nil {
		return nil, fmt.Errorf("making a client for reviews: %w", err)
	}
	made := &guard{
		tokens: tokens.TokenReviews(), access: access.SubjectAccessReviews(), log: m.log,
		certificate: certificate, clients: clients, reviews: make(chan struct{}, maxReviews), renewals: make(chan struct{}, maxReviews),
	}
	rand.Read(made.secret[:]) // It never fails.
	if made.allowed, err = lru.New[asked, verdict](maxVerdicts); err != nil {
		return nil, err
	}
	made.refused, err = lru.New[asked, verdict](maxVerdicts)
	return made, err
}

// guarded is a handler behind a guard.
type guarded struct {
	by   *guard
	next http.Handler
}

// server returns a server behind the guard, or an open one without a guard.
func (g *guard) server(name string, handler http.Handler) *server {
	if g == nil {
		return &server{name: name, handler: handler}
	}
	return &server{name: name, handler: &guarded{g, handler}, certificate: g.certificate.get, asksClients: g.clients != nil}
}

// ServeHTTP answers a request, or refuses it. The code is 401 if token and certificate are missing or invalid,
// and 403 if the client may not get the URL. It is 503 if the API server does not answer.
func (g *guarded) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	by, wrong := g.by.clients.identify(request.TLS)
	by.token = bearer(request)
	found := verdict{code: http.StatusUnauthorized, text: "the certificate of the client cannot be accepted: " + wrong}
	if wrong == "" || by.token != "" { // A client may present a certificate that is meant for others.
		found = g.by.judge(request.Context(), by, request.URL.Path)
	}
	if found.code == http.StatusOK {
		g.next.ServeHTTP(w, request)
		return
	}
	if found.code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, found.text, found.code)
}

// bearer returns the bearer token of a request, or nothing.
func bearer(request *http.Request) string {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// judge returns the verdict on a request. A certificate counts before a token.
func (g *guard) judge(ctx context.Context, by credentials, path string) verdict {
	token := by.token
	if token == "" && by.user == nil {
		text := "this URL needs a token of the cluster; send the header Authorization: Bearer <token>"
		if g.clients != nil {
			text += ", or present a certificate"
		}
		return verdict{code: http.StatusUnauthorized, text: text}
	}
	key := g.hash(by, path)
	if found, ok := g.remembered(key); ok {
		return found
	}
	reviews := g.reviews
	if g.allowed.Contains(key) {
		reviews = g.renewals
	}
	asking := ctx
	ctx, cancel := context.WithTimeout(asking, reviewTime)
	defer cancel()
	select {
	case reviews <- struct{}{}:
		defer func() { <-reviews }()
	case <-ctx.Done():
	}
	if asking.Err() != nil {
		return gone
	}
	if ctx.Err() != nil {
		return g.failed(errors.New("too many requests wait for a review"), token)
	}
	if found, ok := g.remembered(key); ok { // Another request with the token was under review.
		return found
	}
	found, err := g.review(ctx, by, path)
	switch {
	case asking.Err() != nil:
		return gone
	case err != nil:
		return g.failed(err, token)
	case found.code == http.StatusOK:
		found.expires = time.Now().Add(allowedFor)
		g.allowed.Add(key, found)
	default:
		found.expires = time.Now().Add(refusedFor)
		g.refused.Add(key, found)
	}
	return found
}

// hash returns the key of credentials and a path. Tokens themselves are not kept.
func (g *guard) hash(by credentials, path string) (key asked) {
	hash := hmac.New(sha256.New, g.secret[:])
	if by.user != nil {
		fmt.Fprintf(hash, "certificate %x%s", by.print, path)
	} else {
		fmt.Fprintf(hash, "%d %s%s", len(by.token), by.token, path)
	}
	hash.Sum(key[:0])
	return key
}

// remembered returns a verdict that has not expired.
func (g *guard) remembered(key asked) (verdict, bool) {
	for _, verdicts := range []*lru.Cache[asked, verdict]{g.allowed, g.refused} {
		if found, ok := verdicts.Get(key); ok && time.Now().Before(found.expires) {
			return found, true
		}
	}
	return verdict{}, false
}

// review asks the API server for the user of a token, and whether the user may get the path.
func (g *guard) review(ctx context.Context, by credentials, path string) (verdict, error) {
	if by.user != nil {
		return g.authorize(ctx, *by.user, path)
	}
	who, err := g.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: by.token}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return verdict{}, fmt.Errorf("creating a TokenReview: %w", err)
	case !who.Status.Authenticated:
		return verdict{code: http.StatusUnauthorized, text: "the API server does not accept the token; it may have expired, or be for another audience"}, nil
	case who.Status.User.Username == "":
		return verdict{}, errors.New("creating a TokenReview: the answer names no user")
	}
	return g.authorize(ctx, who.Status.User, path)
}

// authorize asks the API server whether a user may get the path.
func (g *guard) authorize(ctx context.Context, user authenticationv1.UserInfo, path string) (verdict, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := g.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return verdict{}, fmt.Errorf("creating a SubjectAccessReview: %w", err)
	case !may.Status.Allowed || may.Status.Denied:
		return verdict{code: http.StatusForbidden, text: fmt.Sprintf("%q may not get this URL; bind the user to a ClusterRole with the verb get for the nonResourceURL", user.Username)}, nil
	}
	return verdict{code: http.StatusOK}, nil
}

// failed returns the verdict if the API server does not answer as expected, and logs why. It is not
// remembered.
func (g *guard) failed(err error, token string) verdict {
	text := "the API server does not review the request; see the log of the manager"
	if apierrors.IsForbidden(err) {
		text = "the manager may not review requests; bind it to the ClusterRole system:auth-delegator"
	}
	now, last := time.Now(), g.logged.Load()
	if (last == nil || now.Sub(*last) >= logReviews) && g.logged.CompareAndSwap(last, &now) {
		quoted := strconv.Quote(token) // As a server may repeat it.
		shown := err.Error()
		if token != "" {
			shown = strings.NewReplacer(token, "<token>", quoted[1:len(quoted)-1], "<token>").Replace(shown)
		}
		g.log.Warn("a request to the metrics or the profile is refused, as it cannot be reviewed", "error", shown, "answer", text)
	}
	return verdict{code: http.StatusServiceUnavailable, text: text}
}
