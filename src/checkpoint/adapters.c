#include "checkpoint/adapters.h"

#include "base/file.h"
#include "checkpoint/format.h"
#include "graph/passes/precision/to_float.h"
#include "plan/job/lora.h"
#include "plan/job/qat.h"

#include <stdlib.h>
#include <string.h>

static const float *find(const struct zt_collected *weights, const char *name) {
    for (int i = 0; i < weights->count; i++)
        if (strcmp(weights->payloads[i].name, name) == 0)
            return weights->payloads[i].data;
    return NULL;
}

/* The adapter that a tensor belongs to; NULL: none. */
static const struct zt_adapter *adapter_of(const struct zt_job *job, const char *name) {
    for (int i = 0; i < job->adapter_count; i++)
        if (strcmp(job->adapters[i].name[0], name) == 0 || strcmp(job->adapters[i].name[1], name) == 0)
            return &job->adapters[i];
    return NULL;
}

/* ---- merging ---- */

/* The contents of a parameter before training: in the file, or what was restored from an initializer. */
static struct zt_tensor initial_of(const struct zt_job *job, const struct zt_graph *g, const char *name) {
    const int id = zt_graph_find(g, name);
    if (id >= 0)
        return (struct zt_tensor){ g->values[id]->dtype, g->values[id]->shape, g->values[id]->data };
    for (int i = 0; i < job->derived_count; i++) {
        const struct zt_value *v = g->values[zt_graph_find(g, job->derived[i].name)];
        if (job->derived[i].made && strcmp(job->derived[i].parameter, name) == 0)
            return (struct zt_tensor){ v->dtype, v->shape, job->derived[i].made };
    }
    return (struct zt_tensor){ .dtype = ZT_UNDEFINED };
}

/* Factor k of an adapter: trained, or frozen at its initial contents. */
static const float *factor(const struct zt_adapter *a, const struct zt_collected *weights, int k) {
    const float *trained = find(weights, a->name[k]);
    return trained ? trained : a->initial[k];
}

static const float *merge(const struct zt_job *job, struct zt_graph *g, const struct zt_adapter *a,
                          const struct zt_collected *weights, int64_t *elements) {
    const float *const factors[2] = { factor(a, weights, 0), factor(a, weights, 1) };
    const float *w = find(weights, a->weight);
    if (!w) {
        const struct zt_tensor stored = initial_of(job, g, a->weight);
        w = zt_to_float(g->arena, &stored);
    }
    *elements = a->shape[1].dim[0] * (zt_shape_count(&a->shape[0]) / a->shape[0].dim[0]);
    return zt_job_merge(g->arena, a, w, factors);
}

static bool is_weight(const struct zt_job *job, const char *name) {
    for (int i = 0; i < job->adapter_count; i++)
        if (strcmp(job->adapters[i].weight, name) == 0)
            return true;
    return false;
}

struct zt_collected zt_adapters_merge(const struct zt_job *job, struct zt_graph *g,
                                      const struct zt_collected *weights) {
    struct zt_collected to = { .payloads =
                                   ZT_NEW_N(g->arena, struct zt_onnx_payload, weights->count + job->adapter_count + 1),
                               .elements = ZT_NEW_N(g->arena, int64_t, weights->count + job->adapter_count + 1) };
    for (int i = 0; i < weights->count; i++) {
        const char *name = weights->payloads[i].name;
        if (adapter_of(job, name) || is_weight(job, name))
            continue;
        to.elements[to.count] = weights->elements[i];
        to.payloads[to.count++] = weights->payloads[i];
    }
    for (int i = 0; i < job->adapter_count; i++) {
        const struct zt_adapter *a = &job->adapters[i];
        const float *merged = merge(job, g, a, weights, &to.elements[to.count]);
        to.payloads[to.count++] = (struct zt_onnx_payload){ a->weight, merged };
    }
    return to;
}

/* ---- files of PEFT ---- */

#define PREFIX  "base_model.model."
#define TENSORS "adapter_model.safetensors"
#define CONFIG  "adapter_config.json"

static struct zt_shape shape_of(const struct zt_job *job, const struct zt_graph *g, const char *name,
                                int64_t elements) {
    const struct zt_adapter *a = adapter_of(job, name);
    const int id = zt_graph_find(g, name);
    if (a)
        return a->shape[strcmp(a->name[1], name) == 0];
    for (int i = 0; i < job->pair_count; i++)
        if (strcmp(job->pairs[i].store, name) == 0)
            return zt_qat_store_shape(&job->pairs[i]);
    return id >= 0 ? g->values[id]->shape : (struct zt_shape){ 1, { elements } };
}

static bool write_tensors(const struct zt_session *s, const char *folder, const struct zt_collected *weights,
                          struct zt_arena *arena, struct zt_err *err) {
    struct zt_stored_file file = { .count = weights->count };
    struct zt_text head = { 0 };
    struct zt_file_out out;
    file.tensors = ZT_NEW_N(arena, struct zt_stored_tensor, weights->count + 1);
    for (int i = 0; i < weights->count; i++) {
        const char *name = weights->payloads[i].name;
        file.tensors[i].name = adapter_of(s->job, name) ? zt_arena_printf(arena, PREFIX "%s", name) : name;
        file.tensors[i].shape = shape_of(s->job, s->model->graph, name, weights->elements[i]);
    }
    zt_stored_layout(&file, &head);
    bool ok = zt_file_out_open_in(&out, folder, TENSORS, err);
    if (ok) {
        fwrite(head.at, 1, head.length, out.stream);
        for (int i = 0; i < weights->count; i++)
            fwrite(weights->payloads[i].data, sizeof(float), (size_t)weights->elements[i], out.stream);
        ok = zt_file_out_commit(&out, err);
    }
    zt_text_finish(&head);
    return ok;
}

/* "h.0.attn.lora_A.weight" -> "h.0.attn" */
static void quote_module(struct zt_text *to, const struct zt_adapter *a, struct zt_arena *arena) {
    const size_t length = strlen(a->name[0]) - strlen(".lora_A.weight");
    zt_stored_quote(to, zt_arena_printf(arena, "%.*s", (int)length, a->name[0]));
}

static bool write_config(const struct zt_session *s, const char *folder, struct zt_arena *arena, struct zt_err *err) {
    const struct zt_lora_config *c = &s->config->lora;
    struct zt_text text = { 0 };
    struct zt_file_out out;
    zt_text_add(&text,
                "{\n  \"peft_type\": \"LORA\",\n  \"r\": %lld,\n  \"lora_alpha\": %.17g,\n  \"lora_dropout\": %.17g,\n"
                "  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n  \"inference_mode\": true,\n"
                "  \"target_modules\": [",
                (long long)c->rank, c->alpha, c->dropout);
    for (int i = 0; i < s->job->adapter_count; i++) {
        zt_text_add(&text, i ? ", " : "");
        quote_module(&text, &s->job->adapters[i], arena);
    }
    zt_text_add(&text, "]\n}\n");
    bool ok = zt_file_out_open_in(&out, folder, CONFIG, err);
    if (ok) {
        fwrite(text.at, 1, text.length, out.stream);
        ok = zt_file_out_commit(&out, err);
    }
    zt_text_finish(&text);
    return ok;
}

bool zt_adapters_write(const struct zt_session *s, const char *folder, const struct zt_collected *weights,
                       struct zt_err *err) {
    struct zt_arena *arena = zt_arena_create();
    const bool ok = write_tensors(s, folder, weights, arena, err) && write_config(s, folder, arena, err);
    zt_arena_destroy(arena);
    return ok;
}
