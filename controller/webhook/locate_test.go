package webhook_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// ofHeroes runs a server with a validation and a conversion of heroes on a fake API server.
func ofHeroes(r *rig) *replica {
	r.Helper()
	server, err := webhook.New(&rest.Config{Host: "http://sourcestest", Transport: r.api}, types(), webhook.Options{Service: "heroes/webhooks", Logger: r.log.logger()})
	must(r, err)
	must(r, webhook.Validate(server, func(context.Context, webhook.Request[*Hero]) error { return nil }))
	return r.keep(server)
}

// rules returns the resources of the rules that are in force.
func (r *rig) rules() string {
	r.Helper()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "webhooks.heroes"}}
	must(r, r.api.Get(configuration))
	var resources []string
	for _, each := range configuration.Webhooks {
		resources = append(resources, each.Rules[0].Resources...)
	}
	return strings.Join(resources, " ")
}

func irregular() sourcestest.Options {
	return sourcestest.Options{Kinds: []sourcestest.Kind{{GroupVersionKind: schema.GroupVersionKind{Group: heroes, Version: "v1", Kind: "Hero"}, Resource: "paladins"}}}
}

// someHero names the kind Hero.
func someHero() *unstructured.Unstructured { return hero("one", "arion", 1) }

func TestTheAPIServerNamesThePluralOfAKindAlsoWhenItIsServedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, irregular(), webhook.Certificates{})
		must(t, r.api.Uninstall(someHero()))
		server := ofHeroes(r)
		r.pass(30 * time.Second)
		if err := server.Ready(); err != nil || r.rules() != "heros" {
			t.Errorf("before the kind is served, the rules are for %s, and the server says %v", r.rules(), err)
		}
		must(t, r.api.Install(someHero()))
		r.pass(11 * time.Second)
		if r.rules() != "paladins" {
			t.Errorf("11 s after the kind is served, the rules are for %s\n%s", r.rules(), r.log)
		}
		if count := strings.Count(r.log.String(), "regular plural until"); count != 1 {
			t.Errorf("%d logs of the missing kind, want 1", count)
		}
		r.end()
	})
}

func TestForbiddenDiscoveryLeavesTheRegularPluralAndIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, irregular(), webhook.Certificates{})
		asked := 0
		r.api.instead = func(request *http.Request) *http.Response {
			if !strings.HasPrefix(request.URL.Path, "/apis/"+heroes) {
				return nil
			}
			asked++
			return forbidden(request)
		}
		server := ofHeroes(r)
		r.pass(time.Minute)
		if err := server.Ready(); err != nil || r.rules() != "heros" || asked != 1 || !strings.Contains(r.log.String(), "assumes the regular plural") {
			t.Errorf("the server says %v, asked %d times, and the rules are for %s\n%s", err, asked, r.rules(), r.log)
		}
		r.end()
	})
}

func TestDiscoveryThatHangsHoldsUpNoCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, irregular(), webhook.Certificates{})
		r.api.instead = func(request *http.Request) *http.Response {
			if strings.HasPrefix(request.URL.Path, "/apis/"+heroes) {
				<-request.Context().Done()
			}
			return nil
		}
		server := ofHeroes(r)
		r.pass(30 * time.Second)
		if err := server.Ready(); err != nil {
			t.Fatalf("the server says %v\n%s", err, r.log)
		}
		first, _ := r.present(0)
		r.pass(42 * time.Minute)
		if now, stored := r.present(0); now.Equal(first) || !stored {
			t.Errorf("the certificate is not rotated\n%s", r.log)
		}
		r.end()
	})
}
