package hero

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/servertest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestThePodThatFollowsAnotherOfItsNameIsAskedItself has two pods of one name. The process of the first one still
// answers, as on a node that is cut off from the API server.
func TestThePodThatFollowsAnotherOfItsNameIsAskedItself(t *testing.T) {
	asked := make(chan types.UID, 8)
	addresses := map[types.UID]string{}
	var pods []*corev1.Pod
	for _, uid := range []types.UID{"first", "second"} {
		member := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet { // Its status is of no interest here.
				<-r.Context().Done()
				return
			}
			asked <- uid
			_, _ = w.Write([]byte("{}"))
		}))
		t.Cleanup(member.Close)
		addresses[uid] = member.Listener.Addr().String()
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "hero-0", UID: uid}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "192.0.2.1"},
		})
	}
	m := newMembers(func(ctx context.Context, pod *corev1.Pod) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addresses[pod.UID])
	})
	runIn(t, m)

	hero := types.NamespacedName{Namespace: "default", Name: "hero"}
	over := m.client(hero, nil, "")
	for _, pod := range pods {
		m.follow(hero, func(string) string { return "hero-0.hero-members.default.svc:7070" }, []*corev1.Pod{pod})
		for range 2 {
			if err := over.Join(t.Context(), "hero-0.hero-members.default.svc:7070", client.Server{ID: "new"}); err != nil {
				t.Fatal(err)
			}
			if got := <-asked; got != pod.UID {
				t.Fatalf("the request went to the %s pod, want the %s one", got, pod.UID)
			}
		}
	}
}

func TestAMemberLagsOnlyBehindWhatTheLeaderSaidBefore(t *testing.T) {
	m := newMembers(nil)
	hero := types.NamespacedName{Namespace: "default", Name: "hero"}
	m.pods[hero] = map[string]*corev1.Pod{"hero-0": {ObjectMeta: metav1.ObjectMeta{UID: "leader"}}, "hero-1": {ObjectMeta: metav1.ObjectMeta{UID: "former"}}}
	m.known["leader"] = &followed{status: &memberReport{Status: client.Status{Role: client.Leader, Term: 3, Committed: 5000}}}
	m.known["former"] = &followed{status: &memberReport{Status: client.Status{Role: client.Leader, Term: 2, Committed: 9000}}}
	for name, test := range map[string]struct {
		said client.Status
		want int64
	}{
		"far behind":                    {client.Status{Role: client.Follower, Applied: 1000}, 4000},
		"with entries on their way":     {client.Status{Role: client.Follower, Applied: 4901}, 0},
		"newer than the leader's words": {client.Status{Role: client.Learner, Applied: 8000}, 0},
		"the leader itself":             {client.Status{Role: client.Leader, Applied: 1000}, 0},
	} {
		if got := m.lagOf(hero, test.said); got != test.want {
			t.Errorf("%s: the lag is %d, want %d", name, got, test.want)
		}
	}
}

// runIn lets goroutines of members run until the test ends.
func runIn(t *testing.T, m *members) {
	t.Helper()
	group := lifecycle.New(t.Context())
	m.group = group
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestAMemberIsFollowedWithTheNewestCertificate(t *testing.T) {
	own, other := servertest.NewAuthority(t), servertest.NewAuthority(t)
	member := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(client.Status{ID: "member"})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	certificate := own.Issue("hero-0.svc")
	member.TLS = configOfSecret(t, certificate, nil)
	member.StartTLS()
	t.Cleanup(member.Close)

	m := newMembers(func(ctx context.Context, _ *corev1.Pod) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", member.Listener.Addr().String())
	})
	runIn(t, m)
	hero := types.NamespacedName{Namespace: "default", Name: "hero"}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "hero-0", UID: "pod"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "192.0.2.1"}}}
	until := func(what string, holds func(report *memberReport, asked bool) bool) {
		t.Helper()
		ticker, deadline := time.NewTicker(10*time.Millisecond), time.After(20*time.Second)
		defer ticker.Stop()
		for {
			statuses, _, unasked := m.follow(hero, func(string) string { return "hero-0.svc:7070" }, pods)
			if holds(statuses["hero-0"], unasked == 0) {
				return
			}
			select {
			case <-ticker.C:
			case <-deadline:
				t.Fatalf("waiting until %s: %+v", what, statuses)
			}
		}
	}
	m.client(hero, configOfSecret(t, certificate, other.Issue()["ca.crt"]), "1")
	until("it has failed", func(report *memberReport, asked bool) bool { return asked && report == nil })
	m.client(hero, configOfSecret(t, certificate, certificate["ca.crt"]), "2")
	until("it answers", func(report *memberReport, _ bool) bool { return report != nil && report.ID == "member" })
}

// configOfSecret returns the configuration of one side, which trusts some authorities.
func configOfSecret(t *testing.T, data map[string][]byte, authorities []byte) *tls.Config {
	t.Helper()
	own, err := tls.X509KeyPair(data["tls.crt"], data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authorities)
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, RootCAs: trusted}
}
