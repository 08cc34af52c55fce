SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE TYPE public.studydirection AS ENUM (
    'NOT_SET',
    'MINIMIZE',
    'MAXIMIZE'
);
CREATE TYPE public.trialintermediatevaluetype AS ENUM (
    'FINITE',
    'INF_POS',
    'INF_NEG',
    'NAN'
);
CREATE TYPE public.trialstate AS ENUM (
    'RUNNING',
    'COMPLETE',
    'PRUNED',
    'FAIL',
    'WAITING'
);
CREATE TYPE public.trialvaluetype AS ENUM (
    'FINITE',
    'INF_POS',
    'INF_NEG'
);
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.studies (
    study_id integer NOT NULL,
    study_name character varying(512) NOT NULL
);
CREATE SEQUENCE public.studies_study_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.studies_study_id_seq OWNED BY public.studies.study_id;
CREATE TABLE public.study_directions (
    study_direction_id integer NOT NULL,
    direction public.studydirection NOT NULL,
    study_id integer NOT NULL,
    objective integer NOT NULL
);
CREATE SEQUENCE public.study_directions_study_direction_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.study_directions_study_direction_id_seq OWNED BY public.study_directions.study_direction_id;
CREATE TABLE public.study_system_attributes (
    study_system_attribute_id integer NOT NULL,
    study_id integer,
    key character varying(512),
    value_json text
);
CREATE SEQUENCE public.study_system_attributes_study_system_attribute_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.study_system_attributes_study_system_attribute_id_seq OWNED BY public.study_system_attributes.study_system_attribute_id;
CREATE TABLE public.study_user_attributes (
    study_user_attribute_id integer NOT NULL,
    study_id integer,
    key character varying(512),
    value_json text
);
CREATE SEQUENCE public.study_user_attributes_study_user_attribute_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.study_user_attributes_study_user_attribute_id_seq OWNED BY public.study_user_attributes.study_user_attribute_id;
CREATE TABLE public.trial_heartbeats (
    trial_heartbeat_id integer NOT NULL,
    trial_id integer NOT NULL,
    heartbeat timestamp without time zone NOT NULL
);
CREATE SEQUENCE public.trial_heartbeats_trial_heartbeat_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_heartbeats_trial_heartbeat_id_seq OWNED BY public.trial_heartbeats.trial_heartbeat_id;
CREATE TABLE public.trial_intermediate_values (
    trial_intermediate_value_id integer NOT NULL,
    trial_id integer NOT NULL,
    step integer NOT NULL,
    intermediate_value double precision,
    intermediate_value_type public.trialintermediatevaluetype NOT NULL
);
CREATE SEQUENCE public.trial_intermediate_values_trial_intermediate_value_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_intermediate_values_trial_intermediate_value_id_seq OWNED BY public.trial_intermediate_values.trial_intermediate_value_id;
CREATE TABLE public.trial_params (
    param_id integer NOT NULL,
    trial_id integer,
    param_name character varying(512),
    param_value double precision,
    distribution_json text
);
CREATE SEQUENCE public.trial_params_param_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_params_param_id_seq OWNED BY public.trial_params.param_id;
CREATE TABLE public.trial_system_attributes (
    trial_system_attribute_id integer NOT NULL,
    trial_id integer,
    key character varying(512),
    value_json text
);
CREATE SEQUENCE public.trial_system_attributes_trial_system_attribute_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_system_attributes_trial_system_attribute_id_seq OWNED BY public.trial_system_attributes.trial_system_attribute_id;
CREATE TABLE public.trial_user_attributes (
    trial_user_attribute_id integer NOT NULL,
    trial_id integer,
    key character varying(512),
    value_json text
);
CREATE SEQUENCE public.trial_user_attributes_trial_user_attribute_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_user_attributes_trial_user_attribute_id_seq OWNED BY public.trial_user_attributes.trial_user_attribute_id;
CREATE TABLE public.trial_values (
    trial_value_id integer NOT NULL,
    trial_id integer NOT NULL,
    objective integer NOT NULL,
    value double precision,
    value_type public.trialvaluetype NOT NULL
);
CREATE SEQUENCE public.trial_values_trial_value_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_values_trial_value_id_seq OWNED BY public.trial_values.trial_value_id;
CREATE TABLE public.trials (
    trial_id integer NOT NULL,
    number integer,
    study_id integer,
    state public.trialstate NOT NULL,
    datetime_start timestamp without time zone,
    datetime_complete timestamp without time zone
);
CREATE SEQUENCE public.trials_trial_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trials_trial_id_seq OWNED BY public.trials.trial_id;
CREATE TABLE public.version_info (
    version_info_id integer NOT NULL,
    schema_version integer,
    library_version character varying(256),
    CONSTRAINT version_info_version_info_id_check CHECK ((version_info_id = 1))
);
ALTER TABLE ONLY public.studies ALTER COLUMN study_id SET DEFAULT nextval('public.studies_study_id_seq'::regclass);
ALTER TABLE ONLY public.study_directions ALTER COLUMN study_direction_id SET DEFAULT nextval('public.study_directions_study_direction_id_seq'::regclass);
ALTER TABLE ONLY public.study_system_attributes ALTER COLUMN study_system_attribute_id SET DEFAULT nextval('public.study_system_attributes_study_system_attribute_id_seq'::regclass);
ALTER TABLE ONLY public.study_user_attributes ALTER COLUMN study_user_attribute_id SET DEFAULT nextval('public.study_user_attributes_study_user_attribute_id_seq'::regclass);
ALTER TABLE ONLY public.trial_heartbeats ALTER COLUMN trial_heartbeat_id SET DEFAULT nextval('public.trial_heartbeats_trial_heartbeat_id_seq'::regclass);
ALTER TABLE ONLY public.trial_intermediate_values ALTER COLUMN trial_intermediate_value_id SET DEFAULT nextval('public.trial_intermediate_values_trial_intermediate_value_id_seq'::regclass);
ALTER TABLE ONLY public.trial_params ALTER COLUMN param_id SET DEFAULT nextval('public.trial_params_param_id_seq'::regclass);
ALTER TABLE ONLY public.trial_system_attributes ALTER COLUMN trial_system_attribute_id SET DEFAULT nextval('public.trial_system_attributes_trial_system_attribute_id_seq'::regclass);
ALTER TABLE ONLY public.trial_user_attributes ALTER COLUMN trial_user_attribute_id SET DEFAULT nextval('public.trial_user_attributes_trial_user_attribute_id_seq'::regclass);
ALTER TABLE ONLY public.trial_values ALTER COLUMN trial_value_id SET DEFAULT nextval('public.trial_values_trial_value_id_seq'::regclass);
ALTER TABLE ONLY public.trials ALTER COLUMN trial_id SET DEFAULT nextval('public.trials_trial_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('v3.2.0.a');
INSERT INTO public.studies VALUES (1, 'ein Näme 😀');
INSERT INTO public.studies VALUES (2, 'two');
INSERT INTO public.study_directions VALUES (1, 'MAXIMIZE', 1, 0);
INSERT INTO public.study_directions VALUES (2, 'MINIMIZE', 2, 0);
INSERT INTO public.study_directions VALUES (3, 'MAXIMIZE', 2, 1);
INSERT INTO public.study_system_attributes VALUES (1, 1, 'study:metric_names', '["eval.accuracy"]');
INSERT INTO public.study_user_attributes VALUES (1, 1, 'config', '{"nested": [1, null, "\u00fc\n\"\\"], "nan": NaN}');
INSERT INTO public.trial_heartbeats VALUES (1, 1, '2026-11-26 15:34:44.76733');
INSERT INTO public.trial_intermediate_values VALUES (1, 1, 0, 0.4, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (2, 1, 2, 0.40031931668057885, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (3, 1, 4, 0.4006386333611576, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (4, 1, 6, 0.40095795004173646, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (5, 2, 0, 0.4, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (6, 2, 2, 0.40002600034593216, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (7, 3, 7, NULL, 'NAN');
INSERT INTO public.trial_intermediate_values VALUES (8, 3, 0, 0.1, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (9, 4, 0, 0.2, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (10, 4, 2, 0.20034071640539072, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (11, 5, 0, NULL, 'INF_NEG');
INSERT INTO public.trial_intermediate_values VALUES (12, 5, 2, NULL, 'INF_NEG');
INSERT INTO public.trial_intermediate_values VALUES (13, 6, 0, 0.5, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (14, 6, 2, 0.5003167689389741, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (15, 6, 4, 0.5006335378779484, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (16, 6, 6, 0.5009503068169225, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (17, 7, 0, 0.2, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (18, 7, 2, 0.20000243522160582, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (19, 8, 0, 0, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (20, 8, 2, 2.415168276532487e-06, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (21, 9, 0, 0.2, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (22, 9, 2, 0.20363016043912172, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (23, 11, 0, 1, 'FINITE');
INSERT INTO public.trial_intermediate_values VALUES (24, 11, 2147483647, 2, 'FINITE');
INSERT INTO public.trial_params VALUES (1, 1, 'train.learning_rate', 0.0001596583402894029, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-06, "high": 0.01, "log": true}}');
INSERT INTO public.trial_params VALUES (2, 1, 'dropout', 0.4, '{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO public.trial_params VALUES (3, 1, 'data.max_length', 224, '{"name": "IntDistribution", "attributes": {"log": false, "step": 32, "low": 128, "high": 512}}');
INSERT INTO public.trial_params VALUES (4, 1, 'layers', 24, '{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 1, "high": 1000}}');
INSERT INTO public.trial_params VALUES (5, 1, 'optimizer', 1, '{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", null, true, 2, 0.5, Infinity, "\u00e4\ud83d\ude00\n"]}}');
INSERT INTO public.trial_params VALUES (6, 1, 'plain', -0.08633355121057784, '{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (7, 1, 'only.sometimes', 2, '{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": -5, "high": 5}}');
INSERT INTO public.trial_params VALUES (8, 2, 'train.learning_rate', 1.3000172966060356e-05, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-06, "high": 0.01, "log": true}}');
INSERT INTO public.trial_params VALUES (9, 2, 'dropout', 0.4, '{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO public.trial_params VALUES (10, 2, 'data.max_length', 352, '{"name": "IntDistribution", "attributes": {"log": false, "step": 32, "low": 128, "high": 512}}');
INSERT INTO public.trial_params VALUES (11, 2, 'layers', 1, '{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 1, "high": 1000}}');
INSERT INTO public.trial_params VALUES (12, 2, 'optimizer', 4, '{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", null, true, 2, 0.5, Infinity, "\u00e4\ud83d\ude00\n"]}}');
INSERT INTO public.trial_params VALUES (13, 2, 'plain', 0.08929803606368947, '{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (14, 3, 'train.learning_rate', 0.0013220840263680614, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-06, "high": 0.01, "log": true}}');
INSERT INTO public.trial_params VALUES (15, 3, 'dropout', 0.1, '{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO public.trial_params VALUES (16, 3, 'data.max_length', 192, '{"name": "IntDistribution", "attributes": {"log": false, "step": 32, "low": 128, "high": 512}}');
INSERT INTO public.trial_params VALUES (17, 3, 'layers', 10, '{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 1, "high": 1000}}');
INSERT INTO public.trial_params VALUES (18, 3, 'optimizer', 1, '{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", null, true, 2, 0.5, Infinity, "\u00e4\ud83d\ude00\n"]}}');
INSERT INTO public.trial_params VALUES (19, 3, 'plain', 0.30682180504707235, '{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (20, 4, 'train.learning_rate', 0.00017035820269534983, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-06, "high": 0.01, "log": true}}');
INSERT INTO public.trial_params VALUES (21, 4, 'dropout', 0.2, '{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO public.trial_params VALUES (22, 4, 'data.max_length', 192, '{"name": "IntDistribution", "attributes": {"log": false, "step": 32, "low": 128, "high": 512}}');
INSERT INTO public.trial_params VALUES (23, 4, 'layers', 11, '{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 1, "high": 1000}}');
INSERT INTO public.trial_params VALUES (24, 4, 'optimizer', 4, '{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", null, true, 2, 0.5, Infinity, "\u00e4\ud83d\ude00\n"]}}');
INSERT INTO public.trial_params VALUES (25, 4, 'plain', -0.44404498675279735, '{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (26, 4, 'only.sometimes', 1, '{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": -5, "high": 8}}');
INSERT INTO public.trial_params VALUES (27, 5, 'train.learning_rate', 0.00010165097413775556, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-06, "high": 0.01, "log": true}}');
INSERT INTO public.trial_params VALUES (28, 5, 'dropout', 0.30000000000000004, '{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO public.trial_params VALUES (29, 5, 'data.max_length', 192, '{"name": "IntDistribution", "attributes": {"log": false, "step": 32, "low": 128, "high": 512}}');
INSERT INTO public.trial_params VALUES (30, 5, 'layers', 369, '{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 1, "high": 1000}}');
INSERT INTO public.trial_params VALUES (31, 5, 'optimizer', 1, '{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", null, true, 2, 0.5, Infinity, "\u00e4\ud83d\ude00\n"]}}');
INSERT INTO public.trial_params VALUES (32, 5, 'plain', -0.8479419037832814, '{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (33, 6, 'train.learning_rate', 0.00015838446948709717, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-06, "high": 0.01, "log": true}}');
INSERT INTO public.trial_params VALUES (34, 6, 'dropout', 0.5, '{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO public.trial_params VALUES (35, 6, 'data.max_length', 256, '{"name": "IntDistribution", "attributes": {"log": false, "step": 32, "low": 128, "high": 512}}');
INSERT INTO public.trial_params VALUES (36, 6, 'layers', 164, '{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 1, "high": 1000}}');
INSERT INTO public.trial_params VALUES (37, 6, 'optimizer', 1, '{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", null, true, 2, 0.5, Infinity, "\u00e4\ud83d\ude00\n"]}}');
INSERT INTO public.trial_params VALUES (38, 6, 'plain', 0.6707200664978108, '{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (39, 7, 'train.learning_rate', 1.2176108029100884e-06, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-06, "high": 0.01, "log": true}}');
INSERT INTO public.trial_params VALUES (40, 7, 'dropout', 0.2, '{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO public.trial_params VALUES (41, 7, 'data.max_length', 288, '{"name": "IntDistribution", "attributes": {"log": false, "step": 32, "low": 128, "high": 512}}');
INSERT INTO public.trial_params VALUES (42, 7, 'layers', 52, '{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 1, "high": 1000}}');
INSERT INTO public.trial_params VALUES (43, 7, 'optimizer', 1, '{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", null, true, 2, 0.5, Infinity, "\u00e4\ud83d\ude00\n"]}}');
INSERT INTO public.trial_params VALUES (44, 7, 'plain', 0.5331505930422534, '{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (45, 7, 'only.sometimes', 6, '{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": -5, "high": 11}}');
INSERT INTO public.trial_params VALUES (46, 8, 'train.learning_rate', 1.2075841382662436e-06, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-06, "high": 0.01, "log": true}}');
INSERT INTO public.trial_params VALUES (47, 8, 'dropout', 0, '{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO public.trial_params VALUES (48, 8, 'data.max_length', 512, '{"name": "IntDistribution", "attributes": {"log": false, "step": 32, "low": 128, "high": 512}}');
INSERT INTO public.trial_params VALUES (49, 8, 'layers', 5, '{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 1, "high": 1000}}');
INSERT INTO public.trial_params VALUES (51, 8, 'plain', -0.9204511525742533, '{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (50, 8, 'optimizer', 1, '{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", null, true, 2, 0.5, Infinity, "\u00e4\ud83d\ude00\n"]}}');
INSERT INTO public.trial_params VALUES (52, 9, 'train.learning_rate', 0.0018150802195608556, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-06, "high": 0.01, "log": true}}');
INSERT INTO public.trial_params VALUES (54, 9, 'data.max_length', 384, '{"name": "IntDistribution", "attributes": {"log": false, "step": 32, "low": 128, "high": 512}}');
INSERT INTO public.trial_params VALUES (56, 9, 'optimizer', 1, '{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", null, true, 2, 0.5, Infinity, "\u00e4\ud83d\ude00\n"]}}');
INSERT INTO public.trial_params VALUES (59, 11, 'optimizer', 3, '{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", null, true, 2, 0.5, Infinity, "\u00e4\ud83d\ude00\n"]}}');
INSERT INTO public.trial_params VALUES (60, 12, 'train.learning_rate', 0.006047949457740322, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-06, "high": 0.01, "log": true}}');
INSERT INTO public.trial_params VALUES (53, 9, 'dropout', 0.2, '{"name": "FloatDistribution", "attributes": {"step": 0.1, "low": 0.0, "high": 0.5, "log": false}}');
INSERT INTO public.trial_params VALUES (55, 9, 'layers', 9, '{"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 1, "high": 1000}}');
INSERT INTO public.trial_params VALUES (57, 9, 'plain', 0.7885911355264366, '{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (58, 10, 'plain', 0.25, '{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (61, 14, 'x', 0.633845139715221, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (62, 14, 'y', 5, '{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 9}}');
INSERT INTO public.trial_params VALUES (63, 15, 'x', 0.8792661506644569, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (64, 15, 'y', 2, '{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 9}}');
INSERT INTO public.trial_params VALUES (65, 16, 'x', 0.9350354330674158, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (66, 16, 'y', 5, '{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 9}}');
INSERT INTO public.trial_params VALUES (67, 17, 'y', 4, '{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 9}}');
INSERT INTO public.trial_system_attributes VALUES (1, 1, 'completed_rung_0', '0.40031931668057885');
INSERT INTO public.trial_system_attributes VALUES (2, 1, 'completed_rung_1', '0.40031931668057885');
INSERT INTO public.trial_system_attributes VALUES (3, 1, 'completed_rung_2', '0.4006386333611576');
INSERT INTO public.trial_system_attributes VALUES (4, 1, 'constraints:memory', '-476.0');
INSERT INTO public.trial_system_attributes VALUES (5, 2, 'completed_rung_0', '0.40002600034593216');
INSERT INTO public.trial_system_attributes VALUES (6, 4, 'completed_rung_0', '0.20034071640539072');
INSERT INTO public.trial_system_attributes VALUES (7, 5, 'tpe:relative_params:0', '"{\"data.max_length\": 192, \"dropout\": 0.30000000000000004, \"layers\": 369, \"optimizer\": null, \"plain\": -0.8479419037832814, \"train.learning_rate\": 0.00010165097413775556}"');
INSERT INTO public.trial_system_attributes VALUES (8, 5, 'completed_rung_0', '-Infinity');
INSERT INTO public.trial_system_attributes VALUES (9, 6, 'tpe:relative_params:0', '"{\"data.max_length\": 256, \"dropout\": 0.5, \"layers\": 164, \"optimizer\": null, \"plain\": 0.6707200664978108, \"train.learning_rate\": 0.00015838446948709717}"');
INSERT INTO public.trial_system_attributes VALUES (10, 6, 'completed_rung_0', '0.5003167689389741');
INSERT INTO public.trial_system_attributes VALUES (11, 6, 'completed_rung_1', '0.5003167689389741');
INSERT INTO public.trial_system_attributes VALUES (12, 6, 'completed_rung_2', '0.5006335378779484');
INSERT INTO public.trial_system_attributes VALUES (13, 6, 'constraints:memory', '-336.0');
INSERT INTO public.trial_system_attributes VALUES (14, 7, 'tpe:relative_params:0', '"{\"data.max_length\": 288, \"dropout\": 0.2, \"layers\": 52, \"optimizer\": null, \"plain\": 0.5331505930422534, \"train.learning_rate\": 1.2176108029100884e-06}"');
INSERT INTO public.trial_system_attributes VALUES (15, 7, 'completed_rung_0', '0.20000243522160582');
INSERT INTO public.trial_system_attributes VALUES (16, 8, 'tpe:relative_params:0', '"{\"data.max_length\": 512, \"dropout\": 0.0, \"layers\": 5, \"optimizer\": null, \"plain\": -0.9204511525742533, \"train.learning_rate\": 1.2075841382662436e-06}"');
INSERT INTO public.trial_system_attributes VALUES (17, 8, 'completed_rung_0', '2.415168276532487e-06');
INSERT INTO public.trial_system_attributes VALUES (18, 9, 'tpe:relative_params:0', '"{\"data.max_length\": 384, \"dropout\": 0.2, \"layers\": 9, \"optimizer\": null, \"plain\": 0.7885911355264366, \"train.learning_rate\": 0.0018150802195608556}"');
INSERT INTO public.trial_system_attributes VALUES (19, 9, 'completed_rung_0', '0.20363016043912172');
INSERT INTO public.trial_system_attributes VALUES (20, 9, 'completed_rung_1', '0.20363016043912172');
INSERT INTO public.trial_system_attributes VALUES (21, 10, 'constraints', '[0.5, -1.0, Infinity]');
INSERT INTO public.trial_system_attributes VALUES (22, 10, 'constraints:1', '2.0');
INSERT INTO public.trial_system_attributes VALUES (23, 12, 'fixed_params', '{"plain": 0.125, "optimizer": null, "layers": 3}');
INSERT INTO public.trial_system_attributes VALUES (24, 13, 'fixed_params', '{}');
INSERT INTO public.trial_user_attributes VALUES (1, 1, 'seconds', '32.0');
INSERT INTO public.trial_user_attributes VALUES (2, 6, 'seconds', '36.57142857142857');
INSERT INTO public.trial_user_attributes VALUES (3, 12, 'why', '"it was good"');
INSERT INTO public.trial_values VALUES (1, 1, 0, 0.4, 'FINITE');
INSERT INTO public.trial_values VALUES (2, 2, 0, 0.40002600034593216, 'FINITE');
INSERT INTO public.trial_values VALUES (3, 4, 0, 0.20034071640539072, 'FINITE');
INSERT INTO public.trial_values VALUES (4, 5, 0, NULL, 'INF_NEG');
INSERT INTO public.trial_values VALUES (5, 7, 0, 0.20000243522160582, 'FINITE');
INSERT INTO public.trial_values VALUES (6, 8, 0, 2.415168276532487e-06, 'FINITE');
INSERT INTO public.trial_values VALUES (7, 9, 0, 0.20363016043912172, 'FINITE');
INSERT INTO public.trial_values VALUES (8, 10, 0, 0.5, 'FINITE');
INSERT INTO public.trial_values VALUES (9, 14, 0, 0.633845139715221, 'FINITE');
INSERT INTO public.trial_values VALUES (10, 14, 1, 5, 'FINITE');
INSERT INTO public.trial_values VALUES (11, 15, 0, 0.8792661506644569, 'FINITE');
INSERT INTO public.trial_values VALUES (12, 15, 1, 2, 'FINITE');
INSERT INTO public.trial_values VALUES (13, 16, 0, 0.9350354330674158, 'FINITE');
INSERT INTO public.trial_values VALUES (14, 16, 1, 5, 'FINITE');
INSERT INTO public.trials VALUES (1, 0, 1, 'COMPLETE', '2026-11-26 15:34:38.13894', '2026-11-26 15:34:38.909993');
INSERT INTO public.trials VALUES (2, 1, 1, 'PRUNED', '2026-11-26 15:34:38.9781', '2026-11-26 15:34:39.358444');
INSERT INTO public.trials VALUES (3, 2, 1, 'PRUNED', '2026-11-26 15:34:39.410684', '2026-11-26 15:34:39.658745');
INSERT INTO public.trials VALUES (4, 3, 1, 'PRUNED', '2026-11-26 15:34:39.862196', '2026-11-26 15:34:40.229832');
INSERT INTO public.trials VALUES (5, 4, 1, 'PRUNED', '2026-11-26 15:34:40.274537', '2026-11-26 15:34:40.709344');
INSERT INTO public.trials VALUES (6, 5, 1, 'FAIL', '2026-11-26 15:34:40.762862', '2026-11-26 15:34:41.357675');
INSERT INTO public.trials VALUES (7, 6, 1, 'PRUNED', '2026-11-26 15:34:41.406619', '2026-11-26 15:34:41.893285');
INSERT INTO public.trials VALUES (8, 7, 1, 'PRUNED', '2026-11-26 15:34:41.925884', '2026-11-26 15:34:42.300463');
INSERT INTO public.trials VALUES (9, 8, 1, 'PRUNED', '2026-11-26 15:34:42.350696', '2026-11-26 15:34:42.760811');
INSERT INTO public.trials VALUES (10, 9, 1, 'COMPLETE', '2026-11-26 15:34:42.772077', '2026-11-26 15:34:42.772077');
INSERT INTO public.trials VALUES (11, 10, 1, 'PRUNED', '2026-11-26 15:34:42.827015', '2026-11-26 15:34:42.827015');
INSERT INTO public.trials VALUES (13, 12, 1, 'WAITING', NULL, NULL);
INSERT INTO public.trials VALUES (12, 11, 1, 'RUNNING', '2026-11-26 15:34:43.005401', NULL);
INSERT INTO public.trials VALUES (14, 0, 2, 'COMPLETE', '2026-11-26 15:34:43.522362', '2026-11-26 15:34:43.80642');
INSERT INTO public.trials VALUES (15, 1, 2, 'COMPLETE', '2026-11-26 15:34:43.870728', '2026-11-26 15:34:44.046495');
INSERT INTO public.trials VALUES (16, 2, 2, 'COMPLETE', '2026-11-26 15:34:44.106941', '2026-11-26 15:34:44.254356');
INSERT INTO public.trials VALUES (17, 3, 2, 'FAIL', '2026-11-26 15:34:44.26512', '2026-11-26 15:34:44.26512');
INSERT INTO public.trials VALUES (18, 4, 2, 'RUNNING', '2026-11-26 15:34:44.346683', NULL);
INSERT INTO public.version_info VALUES (1, 12, '5.0.0');
SELECT pg_catalog.setval('public.studies_study_id_seq', 2, true);
SELECT pg_catalog.setval('public.study_directions_study_direction_id_seq', 3, true);
SELECT pg_catalog.setval('public.study_system_attributes_study_system_attribute_id_seq', 1, true);
SELECT pg_catalog.setval('public.study_user_attributes_study_user_attribute_id_seq', 1, true);
SELECT pg_catalog.setval('public.trial_heartbeats_trial_heartbeat_id_seq', 1, true);
SELECT pg_catalog.setval('public.trial_intermediate_values_trial_intermediate_value_id_seq', 24, true);
SELECT pg_catalog.setval('public.trial_params_param_id_seq', 67, true);
SELECT pg_catalog.setval('public.trial_system_attributes_trial_system_attribute_id_seq', 24, true);
SELECT pg_catalog.setval('public.trial_user_attributes_trial_user_attribute_id_seq', 3, true);
SELECT pg_catalog.setval('public.trial_values_trial_value_id_seq', 14, true);
SELECT pg_catalog.setval('public.trials_trial_id_seq', 18, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.studies
    ADD CONSTRAINT studies_pkey PRIMARY KEY (study_id);
ALTER TABLE ONLY public.study_directions
    ADD CONSTRAINT study_directions_pkey PRIMARY KEY (study_direction_id);
ALTER TABLE ONLY public.study_directions
    ADD CONSTRAINT study_directions_study_id_objective_key UNIQUE (study_id, objective);
ALTER TABLE ONLY public.study_system_attributes
    ADD CONSTRAINT study_system_attributes_pkey PRIMARY KEY (study_system_attribute_id);
ALTER TABLE ONLY public.study_system_attributes
    ADD CONSTRAINT study_system_attributes_study_id_key_key UNIQUE (study_id, key);
ALTER TABLE ONLY public.study_user_attributes
    ADD CONSTRAINT study_user_attributes_pkey PRIMARY KEY (study_user_attribute_id);
ALTER TABLE ONLY public.study_user_attributes
    ADD CONSTRAINT study_user_attributes_study_id_key_key UNIQUE (study_id, key);
ALTER TABLE ONLY public.trial_heartbeats
    ADD CONSTRAINT trial_heartbeats_pkey PRIMARY KEY (trial_heartbeat_id);
ALTER TABLE ONLY public.trial_heartbeats
    ADD CONSTRAINT trial_heartbeats_trial_id_key UNIQUE (trial_id);
ALTER TABLE ONLY public.trial_intermediate_values
    ADD CONSTRAINT trial_intermediate_values_pkey PRIMARY KEY (trial_intermediate_value_id);
ALTER TABLE ONLY public.trial_intermediate_values
    ADD CONSTRAINT trial_intermediate_values_trial_id_step_key UNIQUE (trial_id, step);
ALTER TABLE ONLY public.trial_params
    ADD CONSTRAINT trial_params_pkey PRIMARY KEY (param_id);
ALTER TABLE ONLY public.trial_params
    ADD CONSTRAINT trial_params_trial_id_param_name_key UNIQUE (trial_id, param_name);
ALTER TABLE ONLY public.trial_system_attributes
    ADD CONSTRAINT trial_system_attributes_pkey PRIMARY KEY (trial_system_attribute_id);
ALTER TABLE ONLY public.trial_system_attributes
    ADD CONSTRAINT trial_system_attributes_trial_id_key_key UNIQUE (trial_id, key);
ALTER TABLE ONLY public.trial_user_attributes
    ADD CONSTRAINT trial_user_attributes_pkey PRIMARY KEY (trial_user_attribute_id);
ALTER TABLE ONLY public.trial_user_attributes
    ADD CONSTRAINT trial_user_attributes_trial_id_key_key UNIQUE (trial_id, key);
ALTER TABLE ONLY public.trial_values
    ADD CONSTRAINT trial_values_pkey PRIMARY KEY (trial_value_id);
ALTER TABLE ONLY public.trial_values
    ADD CONSTRAINT trial_values_trial_id_objective_key UNIQUE (trial_id, objective);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT trials_pkey PRIMARY KEY (trial_id);
ALTER TABLE ONLY public.version_info
    ADD CONSTRAINT version_info_pkey PRIMARY KEY (version_info_id);
CREATE UNIQUE INDEX ix_studies_study_name ON public.studies USING btree (study_name);
CREATE INDEX ix_trials_study_id ON public.trials USING btree (study_id);
ALTER TABLE ONLY public.study_directions
    ADD CONSTRAINT study_directions_study_id_fkey FOREIGN KEY (study_id) REFERENCES public.studies(study_id);
ALTER TABLE ONLY public.study_system_attributes
    ADD CONSTRAINT study_system_attributes_study_id_fkey FOREIGN KEY (study_id) REFERENCES public.studies(study_id);
ALTER TABLE ONLY public.study_user_attributes
    ADD CONSTRAINT study_user_attributes_study_id_fkey FOREIGN KEY (study_id) REFERENCES public.studies(study_id);
ALTER TABLE ONLY public.trial_heartbeats
    ADD CONSTRAINT trial_heartbeats_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trial_intermediate_values
    ADD CONSTRAINT trial_intermediate_values_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trial_params
    ADD CONSTRAINT trial_params_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trial_system_attributes
    ADD CONSTRAINT trial_system_attributes_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trial_user_attributes
    ADD CONSTRAINT trial_user_attributes_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trial_values
    ADD CONSTRAINT trial_values_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT trials_study_id_fkey FOREIGN KEY (study_id) REFERENCES public.studies(study_id);
