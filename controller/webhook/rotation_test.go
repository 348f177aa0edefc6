package webhook_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReplicasAgreeOnACertificateAndRotateItInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sourcestest.Options{}, webhook.Certificates{})
		for range 3 {
			r.launch()
		}
		r.pass(30 * time.Second)
		for i := range r.replicas {
			if err := r.replicas[i].Ready(); err != nil {
				t.Fatalf("%v\n%s", err, r.log)
			}
			if _, stored := r.present(i); !stored {
				t.Errorf("replica %d does not present the certificate of the Secret", i)
			}
		}
		if count := strings.Count(r.log.String(), "webhook certificate issued"); count != 1 {
			t.Errorf("%d certificates were issued, want 1", count)
		}
		// It is rotated after 40 of 60 minutes.
		first, _ := r.present(0)
		r.pass(39 * time.Minute)
		if now, _ := r.present(0); !now.Equal(first) {
			t.Error("the certificate was rotated too early")
		}
		r.pass(2 * time.Minute)
		for i := range r.replicas {
			if now, stored := r.present(i); now.Equal(first) || !stored {
				t.Errorf("replica %d does not present the new certificate", i)
			}
		}
		if both := strings.Count(r.views[len(r.views)-1].bundle, "BEGIN"); both != 2 {
			t.Errorf("the bundle has %d authorities during the overlap, want 2", both)
		}
		r.pass(10 * time.Minute)
		if one := strings.Count(r.views[len(r.views)-1].bundle, "BEGIN"); one != 1 {
			t.Errorf("the bundle has %d authorities after the overlap, want 1", one)
		}
		r.pass(75 * time.Minute)
		if len(r.serials) != 4 {
			t.Errorf("%d certificates were in use in two hours, want 4", len(r.serials))
		}
		writes := r.api.Counts().Requests["update secrets"] + r.api.Counts().Requests["create secrets"]
		if writes > 3*4 {
			t.Errorf("%d writes of the Secret, want at most one of each replica for each certificate", writes)
		}
		if applies := strings.Count(r.log.String(), "webhook configuration applied"); applies > 3*(1+2*3) {
			t.Errorf("%d applies; replicas undo each other's", applies)
		}
		r.end()
	})
}

func TestAReplicaThatStartsDuringARotationWaitsUntilItIsTrusted(t *testing.T) {
	for name, kills := range map[string]bool{"beside the one that rotates": false, "after one that ended between two writes": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, sourcestest.Options{}, webhook.Certificates{})
				rotates := r.launch()
				r.pass(time.Minute)
				first, _ := r.present(0)
				rotated := make(chan struct{}, 1)
				wrote := func(request *http.Request) {
					if request.Method == http.MethodPut && strings.Contains(request.URL.Path, "secrets") && kills {
						rotates.group.Stop()
						rotated <- struct{}{}
					}
					if request.Method == http.MethodPatch && !kills {
						rotated <- struct{}{}
					}
				}
				r.api.wrote.Store(&wrote)
				<-rotated
				synctest.Wait()
				r.observe()
				if kills {
					r.kill(0)
				}
				r.api.wrote.Store(nil)
				r.launch()
				for range 14 {
					r.pass(time.Second)
					if last := r.replicas[len(r.replicas)-1]; last.Ready() == nil {
						t.Fatal("it is ready before API servers trust it")
					}
				}
				r.pass(10 * time.Second)
				last := len(r.replicas) - 1
				if now, stored := r.present(last); r.replicas[last].Ready() != nil || !stored || now.Equal(first) {
					t.Errorf("it is not ready with the new certificate: %v\n%s", r.replicas[last].Ready(), r.log)
				}
				r.end()
			})
		})
	}
}

func TestTwoVersionsOfAProgramDoNotUndoEachOthersConfigurationWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sourcestest.Options{}, webhook.Certificates{})
		r.launch()
		r.pass(time.Minute)
		r.launch(webhook.Timeout(7 * time.Second))
		r.pass(10 * time.Minute)
		if applies := strings.Count(r.log.String(), "webhook configuration applied"); applies < 5 || applies > 2+2*11 {
			t.Errorf("%d applies in 10 minutes, want at most one a minute of each", applies)
		}
		r.kill(0)
		r.pass(2 * time.Minute)
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "webhooks.heroes"}}
		must(t, r.api.Get(configuration))
		if timeout := configuration.Webhooks[0].TimeoutSeconds; timeout == nil || *timeout != 7 {
			t.Errorf("the version that stays has not won: %v", timeout)
		}
		must(t, r.api.Delete(configuration))
		r.pass(time.Second)
		must(t, r.api.Get(configuration))
		r.end()
	})
}

func TestADeletedOrSpoiledSecretIsReplacedWithoutAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sourcestest.Options{}, webhook.Certificates{})
		r.launch()
		r.launch()
		r.pass(time.Minute)
		for name, spoil := range map[string]func(){
			"deleted": func() { must(t, r.api.Delete(r.secret())) },
			"emptied": func() { empty := r.secret(); empty.Data = nil; must(t, r.api.Update(empty)) },
			"torn": func() {
				torn := r.secret()
				torn.Data["tls.key"] = webhook.Issue(host, time.Hour)["tls.key"]
				must(t, r.api.Update(torn))
			},
			"nonsense": func() {
				bad := r.secret()
				bad.Data = map[string][]byte{"tls.crt": []byte("canary"), "tls.key": {0, 1}, "ca.crt": []byte("-----BEGIN")}
				must(t, r.api.Update(bad))
			},
			"for another host": func() {
				other := r.secret()
				other.Data = webhook.Issue("example.org", time.Hour)
				must(t, r.api.Update(other))
			},
			"expired": func() {
				old := r.secret()
				old.Data = webhook.Issue(host, -time.Minute)
				must(t, r.api.Update(old))
			},
		} {
			before, _ := r.present(0)
			spoil()
			r.pass(time.Minute)
			for i := range r.replicas {
				if now, stored := r.present(i); !stored || now.Equal(before) {
					t.Errorf("%s: replica %d does not present a new certificate\n%s", name, i, r.log)
				}
			}
		}
		if log := r.log.String(); strings.Contains(log, "PRIVATE KEY") || strings.Contains(log, "canary") {
			t.Error("the log has a part of the Secret")
		}
		r.end()
	})
}

func TestACertificateOfAnotherProgramIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sourcestest.Options{}, webhook.Certificates{Secret: "heroes/webhooks-certificates", External: true})
		r.launch()
		r.pass(time.Minute)
		if err := r.replicas[0].Ready(); err == nil || !strings.Contains(err.Error(), `secrets "webhooks-certificates" not found`) {
			t.Errorf("without the Secret: %v", err)
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "heroes", Name: "webhooks-certificates"}, Data: webhook.Issue(host, time.Hour),
		}
		must(t, r.api.Create(secret))
		r.launch()
		r.pass(time.Minute)
		for range 3 { // The other program replaces the authority at once, without an overlap.
			before, stored := r.present(0)
			if !stored || r.replicas[0].Ready() != nil || r.replicas[1].Ready() != nil {
				t.Fatalf("the certificate is not in use: %v\n%s", r.replicas[0].Ready(), r.log)
			}
			renewed := r.secret()
			renewed.Data = webhook.Issue(host, time.Hour)
			must(t, r.api.Update(renewed))
			r.pass(5 * time.Second)
			if now, _ := r.present(0); !now.Equal(before) {
				t.Error("the new certificate is in use before API servers trust it")
			}
			r.pass(30 * time.Second)
			if now, _ := r.present(0); now.Equal(before) {
				t.Error("the new certificate is not in use")
			}
		}
		bad := r.secret()
		bad.Data["tls.key"] = []byte("canary")
		must(t, r.api.Update(bad))
		r.pass(time.Minute)
		if err := r.replicas[0].Ready(); err != nil {
			t.Errorf("a bad Secret stops a server with a valid certificate: %v", err)
		}
		if !strings.Contains(r.log.String(), "cannot be used") || strings.Contains(r.log.String(), "canary") {
			t.Error("the log does not say what is wrong, or has the key")
		}
		if counts := r.api.Counts().Requests; counts["update secrets"]+counts["create secrets"] > 0 {
			t.Errorf("the Secret of another program was written: %v", counts)
		}
		r.pass(time.Hour)
		if err := r.replicas[0].Ready(); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("with an expired certificate: %v", err)
		}
		r.end()
	})
}

func TestFaultsAndKillsNeverBreakTheTrustOfAPIServers(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, sourcestest.Options{Seed: seed + 1}, webhook.Certificates{})
				random := rand.New(rand.NewPCG(seed, 1))
				chance := rand.New(rand.NewPCG(seed, 2)) // guarded by changing
				var kills atomic.Int64
				wrote := func(*http.Request) { // A replica ends right after some of the writes.
					r.changing.Lock()
					defer r.changing.Unlock()
					if chance.IntN(4) == 0 && len(r.replicas) > 0 {
						kills.Add(1)
						r.replicas[chance.IntN(len(r.replicas))].group.Stop()
					}
				}
				r.api.wrote.Store(&wrote)
				r.launch()
				r.launch()
				ready := 0
				for range 90 {
					r.pass(time.Duration(1+random.IntN(120)) * time.Second)
					for i := 0; i < len(r.replicas); i++ {
						if r.replicas[i].Ready() == nil {
							ready++
						}
						if r.replicas[i].group.Context().Err() != nil || random.IntN(40) == 0 {
							r.kill(i)
							r.launch()
							i--
							r.pass(time.Duration(random.IntN(20)) * time.Second)
						}
					}
				}
				if ready < 90 || len(r.serials) < 3 || kills.Load() == 0 {
					t.Errorf("ready %d times with %d certificates and %d kills, which proves little\n%s", ready, len(r.serials), kills.Load(), r.log)
				}
				r.end()
			})
		})
	}
}
